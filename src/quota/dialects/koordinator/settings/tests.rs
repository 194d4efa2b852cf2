use super::*;

#[test]
fn each_setting_is_set_alone() {
    let of = |settings: KoordinatorSettings| {
        [settings.runtime, settings.check_parents, settings.scale_min]
    };
    let settings = KoordinatorSettings::default;
    assert_eq!(of(settings()), [true, false, false]);
    assert_eq!(of(settings().runtime(false)), [false, false, false]);
    assert_eq!(of(settings().check_parents(true)), [true, true, false]);
    assert_eq!(of(settings().scale_min(true)), [true, false, true]);
    let all = settings().runtime(false).check_parents(true).scale_min(true);
    assert_eq!(of(all), [false, true, true]);
}
