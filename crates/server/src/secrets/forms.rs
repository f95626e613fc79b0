//! The ways in which a secret may stand in a text: as it is, and as programs write it inside of something else.

mod encoded;
mod escaped;
mod quoted;
#[cfg(test)]
mod tests;

/// Shorter ones are found in any text: masking them would tell more than it hides.
const SHORTEST: usize = 4;
/// A line or another part of a secret is masked by itself from this length on, and a secret in capitals:
/// shorter ones are words like `end`.
pub(super) const SHORTEST_PART: usize = 8;
/// Longer ones are looked for in fewer forms: keys are shorter, and what is looked for is kept in memory.
const LONG: usize = 4 << 10;

/// Everything that is looked for because of one secret, without repetitions.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    if secret.chars().count() >= SHORTEST {
        found.extend(forms_of(secret));
    }
    if secret.contains(['\n', '\r']) {
        let lines = secret.split(['\n', '\r']).map(str::trim);
        // The frame around a key is no secret.
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
        found.push(escaped::strictly(text));
        return found;
    }
    // Hosts are written so.
    found.push(text.to_ascii_lowercase());
    if text.len() >= SHORTEST_PART {
        found.push(text.to_ascii_uppercase());
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
