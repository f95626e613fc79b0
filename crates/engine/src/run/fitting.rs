//! Outputs that exceed the size limit. A step does not fail because of the size of its output: the
//! output is cut, and says so.

use language::definition::limits::OUTPUT_BYTES;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::start::raw;

/// The field that marks an object as cut.
const MARK: &str = "truncated";
/// The end of a text that was cut.
const TEXT_MARK: &str = "… [truncated]";
/// The bytes of an item that was replaced by null, with its comma.
const NULL: usize = "null,".len();

/// The output as it is stored, and a message if it was cut.
pub(super) fn fitted(output: Box<RawValue>) -> (Box<RawValue>, Option<String>) {
    let bytes = output.get().len();
    if bytes <= OUTPUT_BYTES {
        return (output, None);
    }
    // Output with numbers that cannot be parsed is kept as a text.
    let value = serde_json::from_str(output.get());
    let value = value.unwrap_or_else(|_| Value::from(output.get()));
    let said =
        format!("The output has {bytes} bytes, at most {OUTPUT_BYTES} are kept: it was cut.");
    (raw(&cut(value, OUTPUT_BYTES)), Some(said))
}

/// The outputs of a list's items as one list, and a message if some do not fit. Those are null in
/// the list; each is still stored with its item.
pub(super) fn listed<E>(
    count: usize,
    mut output_of: impl FnMut(usize) -> Result<Option<Box<RawValue>>, E>,
) -> Result<(Box<RawValue>, Option<String>), E> {
    let mut text = String::from("[");
    let mut left_out = 0;
    for item in 0..count {
        if item > 0 {
            text.push(',');
        }
        let output = match left_out {
            0 => output_of(item)?,
            _ => None,
        };
        let output = output.as_deref().map_or("null", RawValue::get);
        let rest = (count - item) * NULL;
        if left_out > 0 || text.len() + output.len() + rest > OUTPUT_BYTES {
            left_out += 1;
            text.push_str("null");
        } else {
            text.push_str(output);
        }
    }
    text.push(']');
    let said = (left_out > 0).then(|| {
        format!(
            "The outputs of {count} items have more than the {OUTPUT_BYTES} bytes that are kept: the \
             last {left_out} are null here. Each is kept with its item."
        )
    });
    // The text is assembled from valid JSON texts.
    Ok((RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()), said))
}

/// As much of a value as fits into `most` bytes of JSON. The recursion is bounded by the parser's
/// limit of 128 levels.
fn cut(value: Value, most: usize) -> Value {
    if size(&value) <= most {
        return value;
    }
    match value {
        Value::String(text) => Value::String(cut_text(text, most)),
        Value::Array(items) => Value::Array(cut_list(items, most)),
        Value::Object(fields) => Value::Object(cut_object(fields, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Value::Null,
    }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

fn cut_text(mut text: String, most: usize) -> String {
    let room = most.saturating_sub(TEXT_MARK.len() + 2);
    let mut kept = 0;
    let mut encoded = 0;
    for character in text.chars() {
        encoded += encoded_len(character);
        if encoded > room {
            break;
        }
        kept += character.len_utf8();
    }
    text.truncate(kept);
    text.push_str(TEXT_MARK);
    text
}

/// The number of bytes of a character in a JSON text.
fn encoded_len(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Keeps the first items. The others become null, so that each keeps its index, or are dropped if
/// even the nulls are too large.
fn cut_list(items: Vec<Value>, most: usize) -> Vec<Value> {
    let count = items.len();
    let null = if count * NULL + 2 <= most { NULL } else { 0 };
    let mut kept = Vec::new();
    let mut used = 2;
    let mut is_cut = false;
    for (index, item) in items.into_iter().enumerate() {
        let bytes = size(&item) + 1;
        is_cut |= used + bytes + (count - index - 1) * null > most;
        if !is_cut {
            used += bytes;
            kept.push(item);
        } else if null == 0 {
            break;
        } else {
            kept.push(Value::Null);
        }
    }
    kept
}

/// Keeps all fields. Small ones stay whole, and the large ones share the remaining bytes.
fn cut_object(fields: Map<String, Value>, most: usize) -> Map<String, Value> {
    let head = |name: &str| size(&Value::from(name)) + 2;
    let heads: usize = fields.keys().map(|name| head(name)).sum();
    let mut left = most.saturating_sub(2 + heads + head(MARK) + 4);
    let mut cut_fields = Map::new();
    if left < fields.len() * NULL {
        cut_fields.insert(MARK.to_owned(), Value::Bool(true));
        return cut_fields;
    }
    let mut sizes: Vec<usize> = fields.values().map(size).collect();
    sizes.sort_unstable();
    let mut rest = sizes.len();
    let mut share = left;
    for bytes in sizes {
        share = left / rest;
        if bytes > share {
            break;
        }
        left -= bytes;
        rest -= 1;
    }
    for (name, value) in fields {
        cut_fields.insert(name, cut(value, share));
    }
    cut_fields.insert(MARK.to_owned(), Value::Bool(true));
    cut_fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fit(value: &Value) -> (Value, bool) {
        let (output, said) = fitted(raw(value));
        assert!(output.get().len() <= OUTPUT_BYTES, "{}", output.get().len());
        (serde_json::from_str(output.get()).unwrap(), said.is_some())
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let value = json!({"a": "x".repeat(OUTPUT_BYTES - 100), "b": [1, 2]});
        assert_eq!(fit(&value), (value, false));
    }

    #[test]
    fn small_fields_stay_whole_and_large_ones_share_the_rest() {
        let value = json!({
            "exit_code": 0, "stdout": "\"".repeat(OUTPUT_BYTES), "stderr": "\u{1}é".repeat(OUTPUT_BYTES),
        });
        let (kept, was_cut) = fit(&value);
        assert!(was_cut);
        assert_eq!((&kept["exit_code"], &kept["truncated"]), (&json!(0), &json!(true)));
        for name in ["stdout", "stderr"] {
            let text = kept[name].as_str().unwrap();
            assert!(text.ends_with(TEXT_MARK) && kept[name].to_string().len() > OUTPUT_BYTES / 3);
        }
    }

    #[test]
    fn items_stay_in_their_places_if_they_can() {
        let list: Vec<Value> =
            (0..5_000).map(|n| json!({"n": n, "text": "x".repeat(90)})).collect();
        let (kept, _) = fit(&Value::Array(list));
        let kept = kept.as_array().unwrap();
        assert_eq!((kept.len(), &kept[0]["n"], &kept[4_999]), (5_000, &json!(0), &Value::Null));
        let (kept, _) = fit(&json!(vec![1; 200_000]));
        assert!(kept.as_array().unwrap().len() > 100_000);
    }

    #[test]
    fn anything_is_cut_to_what_is_kept() {
        let large = "x".repeat(OUTPUT_BYTES);
        let names: Map<String, Value> =
            (0..60_000).map(|n| (format!("name{n}"), json!(n))).collect();
        for value in [
            json!(large),
            json!({"a": {"b": {"c": [large, large]}}}),
            json!([[large], large, 1]),
            json!({large.as_str(): 1}),
            Value::Object(names),
        ] {
            assert!(fit(&value).1);
        }
        let strange = RawValue::from_string(format!("[1e999,\"{large}\"]")).unwrap();
        let (output, _) = fitted(strange);
        assert!(output.get().len() <= OUTPUT_BYTES && output.get().starts_with("\"[1e999"));
    }

    #[test]
    fn a_list_of_outputs_leaves_out_what_is_too_much() {
        let of = |bytes: usize| {
            move |item: usize| Ok::<_, ()>(Some(raw(&json!(format!("{item:0bytes$}")))))
        };
        let (output, said) = listed(100, of(100)).unwrap();
        assert!(said.is_none() && output.get().len() > 100 * 100);
        let (output, said) = listed(5_000, of(100)).unwrap();
        let list: Vec<Value> = serde_json::from_str(output.get()).unwrap();
        let nulls = list.iter().filter(|item| item.is_null()).count();
        assert!(output.get().len() <= OUTPUT_BYTES && list.len() == 5_000 && nulls > 1_000);
        assert!(said.unwrap().contains(&format!("the last {nulls} are null")));
    }
}
