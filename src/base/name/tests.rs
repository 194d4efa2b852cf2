use super::*;
use alloc::string::ToString;

#[test]
fn names_are_read_as_they_are_printed() {
    for (namespace, name) in [("default", "a"), ("", "a"), ("a/b", "c"), ("é", "ü")] {
        let own = ObjectName::new(namespace, name);
        assert_eq!((own.namespace(), own.name()), (namespace, name));
        assert_eq!(own.to_string().parse(), Ok(own.clone()));
        assert_eq!(ObjectName::try_from(String::from(own.clone())), Ok(own.clone()));
        assert_eq!(ObjectName::from_utf8(own.as_bytes()), Ok(own));
    }
    let (one, other) = (ObjectName::new("a/b", "c"), ObjectName::new("a", "b/c"));
    assert!(one == other && one.name() != other.name());
    let set: alloc::collections::BTreeSet<ObjectName> = [one, other].into();
    assert!(set.len() == 1 && set.contains("a/b/c"));
}

#[test]
fn what_is_no_name_is_called_what_it_is() {
    let long = "n".repeat(30 << 20);
    let error = long.parse::<ObjectName>().unwrap_err();
    assert!(error.to_string().len() < 512, "{error}");
    for (text, message) in [
        ("a", "\"a\" is not of the form namespace/name"),
        ("a/", "\"a/\" names nothing after the slash"),
    ] {
        assert_eq!(text.parse::<ObjectName>().unwrap_err().to_string(), message);
        let taken = ObjectName::try_from(String::from(text));
        assert_eq!(taken.unwrap_err().to_string(), message);
    }
    let error = ObjectName::from_utf8(b"default/\xff").unwrap_err();
    assert_eq!(error.to_string(), "the name is not UTF-8 at byte 8");
}
