use super::*;

fn problem(limits: &[UserLimit]) -> Option<(usize, LimitProblem)> {
    match check("vision", limits) {
        Err(QuotaError::UserLimit { number, problem, .. }) => Some((number, problem)),
        _ => None,
    }
}

#[test]
fn a_limit_is_of_somebody_and_of_something() {
    let of = |limit: UserLimit| problem(&[limit]).map(|(_, problem)| problem);
    assert_eq!(of(UserLimit::users(["ada", "*"]).claims(1)), None);
    assert_eq!(of(UserLimit::default().claims(1)), Some(LimitProblem::OfNobody));
    assert_eq!(of(UserLimit::users(["ada"])), Some(LimitProblem::OfNothing));
    let negative = UserLimit::users(["ada"]).amount("gpu", -1);
    assert_eq!(of(negative), Some(LimitProblem::Negative("gpu".into())));
}

#[test]
fn a_name_stands_once_and_before_the_wildcard() {
    let (ada, any) = (UserLimit::users(["ada"]).claims(1), UserLimit::users(["*"]).claims(1));
    assert_eq!(problem(&[ada.clone(), any.clone()]), None);
    let twice = problem(&[ada.clone(), ada.clone()]);
    assert_eq!(twice, Some((1, LimitProblem::Twice("ada".into()))));
    let after = problem(&[any, ada.clone()]);
    assert_eq!(after, Some((1, LimitProblem::AfterAnyone("ada".into()))));
    // A user and a group may share a name.
    assert_eq!(problem(&[ada, UserLimit::groups(["ada"]).claims(1)]), None);
}
