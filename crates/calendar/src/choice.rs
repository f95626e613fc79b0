//! Finds a value by its name, in upper or lower case.

/// The value with this name. The error has the form of serde's "unknown variant".
pub fn by_name<T: Copy>(
    written: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let found = all.iter().find(|thing| name(**thing).eq_ignore_ascii_case(written));
    found.copied().ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|thing| format!("`{}`", name(*thing))).collect();
        format!("unknown variant `{written}`, expected one of {}", names.join(", "))
    })
}
