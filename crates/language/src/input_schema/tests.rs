use serde_json::{Value, json};

use crate::expression::Key;

use super::InputSchema;

fn schema(written: Value) -> InputSchema {
    let (schema, mistakes) = InputSchema::read(&written);
    assert!(mistakes.is_empty(), "{mistakes:?}");
    schema
}

/// The mistakes in a payload, as `path: message`.
fn wrong(schema: &InputSchema, payload: Value) -> Vec<String> {
    let told = schema.check(&payload);
    told.iter().map(|mistake| format!("{}: {}", mistake.path, mistake.problem.message)).collect()
}

#[test]
fn each_keyword_is_obeyed() {
    let cases = [
        (
            json!({"type": "number"}),
            json!(1.5),
            json!("1"),
            "payload: expected a number, found a text",
        ),
        (
            json!({"type": "integer"}),
            json!(2.0),
            json!(2.5),
            "payload: expected a whole number, found a number",
        ),
        (
            json!({"type": ["string", "null"]}),
            json!(null),
            json!(1),
            "payload: expected a text or null, found a number",
        ),
        (
            json!({"enum": ["a", 1]}),
            json!(1),
            json!("b"),
            "payload: is none of the values that are possible",
        ),
        (json!({"const": "x"}), json!("x"), json!("y"), "payload: has to be \"x\""),
        (json!({"minimum": 1}), json!(1), json!(0.9), "payload: has to be at least 1"),
        (json!({"maximum": 1}), json!(1), json!(2), "payload: has to be at most 1"),
        (json!({"exclusiveMinimum": 1}), json!(1.1), json!(1), "payload: has to be more than 1"),
        (json!({"exclusiveMaximum": 1}), json!(0), json!(1), "payload: has to be less than 1"),
        (
            json!({"minLength": 2}),
            json!("äö"),
            json!("ä"),
            "payload: has 1 characters, and needs at least 2",
        ),
        (
            json!({"maxLength": 1}),
            json!("ä"),
            json!("ab"),
            "payload: has 2 characters, and may have at most 1",
        ),
        (
            json!({"minItems": 1}),
            json!([1]),
            json!([]),
            "payload: has 0 items, and needs at least 1",
        ),
        (
            json!({"maxItems": 0}),
            json!([]),
            json!([1]),
            "payload: has 1 items, and may have at most 0",
        ),
        (
            json!({"items": {"type": "string"}}),
            json!(["a"]),
            json!(["a", 1]),
            "payload[1]: expected a text, found a number",
        ),
        (json!({"required": ["a"]}), json!({"a": null}), json!({}), "payload.a: a is missing"),
        (
            json!({"properties": {"a": {"type": "boolean"}}}),
            json!({"b": 1}),
            json!({"a": 1}),
            "payload.a: expected true or false, found a number",
        ),
        (
            json!({"properties": {"amount": {}}, "additionalProperties": false}),
            json!({"amount": 1}),
            json!({"amuont": 1}),
            "payload.amuont: amuont is not expected",
        ),
        (
            json!({"additionalProperties": {"type": "number"}}),
            json!({"a": 1}),
            json!({"a": "1"}),
            "payload.a: expected a number, found a text",
        ),
    ];
    for (written, good, bad, told) in cases {
        let schema = schema(written.clone());
        assert!(schema.check(&good).is_empty(), "{written} {good}");
        assert_eq!(wrong(&schema, bad), [told], "{written}");
        let stored = serde_json::to_value(&schema).unwrap();
        assert_eq!(serde_json::from_value::<InputSchema>(stored).unwrap(), schema, "{written}");
    }
}

#[test]
fn no_payload_is_an_empty_mapping_where_one_is_expected() {
    let needs = schema(json!({"type": "object", "required": ["amount"]}));
    assert_eq!(wrong(&needs, json!(null)), ["payload.amount: amount is missing"]);
    assert!(schema(json!({"type": "object"})).check(&json!(null)).is_empty());
    assert_eq!(schema(json!({"type": "array"})).check(&json!(null)).len(), 1);
}

#[test]
fn a_payload_with_many_mistakes_is_not_told_all_of_them() {
    let texts = schema(json!({"items": {"type": "string"}}));
    assert_eq!(texts.check(&json!(vec![1; 1000])).len(), super::MISTAKES);
}

#[test]
fn what_is_not_obeyed_is_refused() {
    let told = |written: Value| {
        let (_, mistakes) = InputSchema::read(&written);
        let told = mistakes.first().expect("a mistake");
        (told.path.clone(), told.problem.message.clone(), told.problem.remedy.clone())
    };
    assert_eq!(told(json!({"anyOf": []})).1, "anyOf is not checked here");
    assert_eq!(told(json!({"propertys": {}})).2.as_deref(), Some("properties"));
    let below = told(json!({"properties": {"a": {"items": {"type": "strnig"}}}}));
    assert_eq!((below.0.as_str(), below.2.as_deref()), ("properties.a.items.type", Some("string")));
    assert_eq!(told(json!("object")).1, "expected a schema, which is a mapping");
    assert_eq!(told(json!({"type": "number", "default": "x"})).0, "default");
    let unlisted = json!({"properties": {}, "required": ["a"], "additionalProperties": false});
    assert_eq!(told(unlisted).0, "required[0]");
    let mut deep = json!({});
    for _ in 0..super::DEPTH {
        deep = json!({ "items": deep });
    }
    assert_eq!(told(deep).1, "the schema is nested too deep");
}

/// The index of the key of `path` that leads nowhere, with the fields that are listed there.
/// `[]` is an index and `[?]` a computed key.
fn no_part<'s>(schema: &'s InputSchema, path: &str) -> Option<(usize, Vec<&'s str>)> {
    let keys: Vec<Key> = path
        .split('.')
        .map(|key| match key {
            "[]" => Key::Index,
            "[?]" => Key::Computed,
            name => Key::Name(name.to_owned()),
        })
        .collect();
    let missing = schema.part(&keys).err()?;
    Some((missing.index, missing.of.properties.keys().map(String::as_str).collect()))
}

#[test]
fn fields_that_are_not_listed_are_unknown_unless_the_schema_says_that_there_may_be_others() {
    let listed = schema(json!({"properties": {"order": {"properties": {"id": {}}}, "any": {},
        "rows": {"type": "array", "items": {"properties": {"id": {}}}},
        "open": {"items": {"properties": {"id": {}}}}, "total": {"type": "number"}}}));
    for (path, expected) in [
        ("order.id", None),
        ("any.thing", None),
        ("any.[].thing", None),
        ("rows.[].id", None),
        ("rows.[?].id", None),
        // A mapping whose key is computed: which field it is cannot be known.
        ("open.[?].ib", None),
        ("order.[?].ib", None),
        ("order.ib", Some((1, vec!["id"]))),
        ("oder", Some((0, vec!["any", "open", "order", "rows", "total"]))),
        ("rows.[].ib", Some((2, vec!["id"]))),
        ("rows.[?].ib", Some((2, vec!["id"]))),
        ("open.[].ib", Some((2, vec!["id"]))),
        ("rows.id", Some((1, vec![]))),
        ("total.cents", Some((1, vec![]))),
    ] {
        assert_eq!(no_part(&listed, path), expected, "{path}");
    }
    let open = schema(json!({"properties": {"a": {}}, "additionalProperties": true}));
    assert_eq!(no_part(&open, "b"), None);
}

#[test]
fn what_is_known_of_items_that_are_written_out() {
    let items = [json!({"a": 1, "b": [{"c": 1}]}), json!({"a": "x", "d": "{{ input }}"})];
    let known = InputSchema::of_items(&items);
    for (path, expected) in [
        ("a", None),
        ("d.anything", None),
        ("b.[].c", None),
        ("b.[].e", Some((2, vec!["c"]))),
        ("a.x", Some((1, vec![]))),
        ("e", Some((0, vec!["a", "b", "d"]))),
    ] {
        assert_eq!(no_part(&known, path), expected, "{path}");
    }
    let mixed = InputSchema::of_items(&[json!({"a": 1}), json!("{{ input.x }}")]);
    assert_eq!(no_part(&mixed, "z"), None);
    assert_eq!(no_part(&InputSchema::of_items(&[]), "z"), None);
}

#[test]
fn a_sample_holds_what_is_required() {
    let written = json!({"type": "object", "required": ["amount", "kind"], "properties": {
        "amount": {"type": "number"}, "kind": {"enum": ["full", "part"]}, "note": {"type": "string"},
        "days": {"type": "integer", "default": 3}}});
    assert_eq!(schema(written).sample(), json!({"amount": 0, "kind": "full", "days": 3}));
}
