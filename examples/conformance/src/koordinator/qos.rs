//! Classes of service, bands of priority, and what labels say of eviction.

use phalanx::model::{
    PreemptionPolicy, PriorityBand, QosClass, eviction_priority, is_evictable, is_preemptible,
    preemption_policy, priority_or_default,
};
use serde_json::Value;

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::objects;
use super::overcommit::band;

fn named(name: Option<&'static str>) -> Value {
    name.unwrap_or_default().into()
}

pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    if case.function == "TestGetQoSClassByAttrs" {
        let mut args = Fields::new("args", case.input.take("args")?)?;
        args.pass(&["annotations"]);
        let none = serde_json::json!({});
        let labels = args.maybe("labels").unwrap_or(&none).clone();
        args.end()?;
        let labels = serde_json::from_value(labels).map_err(|error| error.to_string())?;
        let actual = named(QosClass::of_labels(&labels).map(QosClass::as_str));
        return same("class", case.expect.maybe("want").unwrap_or(&named(None)), &actual);
    }
    let value = case.input.maybe("pod").or(case.input.maybe("arg"));
    let absent = value.is_none();
    let pod = objects::pod(value)?;
    let none = Value::Null;
    let expected = case.expect.maybe("want").or(case.expect.maybe("expected")).unwrap_or(&none);
    let actual = match case.function {
        "TestGetPodQoSClass" => named(QosClass::of_labels(&pod.labels).map(QosClass::as_str)),
        "TestGetPriorityClass" => {
            named(PriorityBand::stated(&pod.labels, pod.priority).map(PriorityBand::as_str))
        }
        "TestGetPodPriorityClassWithDefault" => named(Some(band(&pod).as_str())),
        "TestGetPodPriorityValueWithDefault" if absent => 0.into(),
        "TestGetPodPriorityValueWithDefault" => {
            priority_or_default(pod.priority, band(&pod)).into()
        }
        "TestGetPodKoordPreemptionPolicy" => match preemption_policy(&pod.labels) {
            None => Value::Null,
            Some(PreemptionPolicy::Never) => "Never".into(),
            Some(_) => "PreemptLowerPriority".into(),
        },
        "TestIsPodPreemptible" => is_preemptible(&pod.labels).into(),
        "Test_PodEvictDisabled" => is_evictable(&pod.labels).into(),
        "Test_GetPodEvictionPriority" => {
            let priority = eviction_priority(&pod.annotations);
            same("error", &case.expect.flag("wantErr")?, &priority.is_err())?;
            priority.unwrap_or(0).into()
        }
        function => return Err(format!("{function}: is not known").into()),
    };
    // What is absent is the zero of its kind.
    let expected = match (expected, &actual) {
        (Value::Null, Value::String(_)) => "".into(),
        (Value::Null, Value::Bool(_)) => false.into(),
        (Value::Null, Value::Number(_)) => 0.into(),
        (expected, _) => expected.clone(),
    };
    same(case.function, &expected, &actual)
}
