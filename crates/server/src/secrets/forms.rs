//! The forms in which a secret may appear in a text: as it is, and as programs quote or encode it.
//! Percent escapes need no forms: they are undone before texts are searched (`percent.rs`).

mod encoded;
mod escaped;
mod quoted;
#[cfg(test)]
mod tests;

/// Shorter secrets occur in any text: masking them would reveal more than it hides.
const SHORTEST: usize = 4;
/// Lines and other parts of a secret are masked from this length on, and so is a secret in capital
/// letters. Shorter ones are words like `end`.
pub(super) const SHORTEST_PART: usize = 8;
/// Longer secrets are searched for in fewer forms: keys are shorter, and each form is kept in
/// memory.
const LONG: usize = 4 << 10;

/// All patterns that are searched for because of one secret, without duplicates.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    if secret.chars().count() >= SHORTEST {
        found.extend(forms_of(secret));
    }
    if secret.contains(['\n', '\r']) {
        let lines = secret.split(['\n', '\r']).map(str::trim);
        // The header and footer of a PEM key are not secret.
        let lines = lines.filter(|line| line.len() >= SHORTEST_PART && !line.starts_with("-----"));
        found.extend(lines.flat_map(forms_of));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn forms_of(text: &str) -> Vec<String> {
    let mut found = vec![text.to_owned()];
    if text.len() > LONG {
        found.extend(quoted::as_plain_json(text));
        return found;
    }
    // Host names are written in lower case.
    found.extend([text.to_ascii_lowercase(), text.to_lowercase()]);
    if text.len() >= SHORTEST_PART {
        found.extend([text.to_ascii_uppercase(), text.to_uppercase()]);
    }
    found.extend(quoted::as_json(text));
    found.extend(quoted::as_html(text));
    found.extend(quoted::as_literal(text));
    found.extend(quoted::for_shells(text));
    found.extend(escaped::in_urls(text));
    found.extend(encoded::as_base64(text.as_bytes()));
    found.extend(encoded::as_base32(text.as_bytes()));
    found.extend(encoded::as_hex(text.as_bytes()));
    found
}
