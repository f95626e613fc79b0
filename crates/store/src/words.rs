//! Splits a name into words, for search by their beginnings.

/// Only the first words of a name are indexed, so that a name of hundreds of words stays small.
const MOST: usize = 12;
/// Only this many characters of a word are indexed: nobody types more.
const LONGEST: usize = 40;

/// The runs of letters and digits in a name, in lower case.
pub(crate) fn words(name: &str) -> impl Iterator<Item = String> + '_ {
    name.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(MOST)
        .map(|word| word.chars().flat_map(char::to_lowercase).take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fall_into_words() {
        let all: Vec<String> = words("Nightly-Backup_of customer №12, ÄÖ/x").collect();
        assert_eq!(all, ["nightly", "backup", "of", "customer", "12", "äö", "x"]);
        assert_eq!(words("—").count(), 0);
    }
}
