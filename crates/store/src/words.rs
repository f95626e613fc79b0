//! The words of a name, for search by their beginnings.

/// A name of hundreds of words is found by its first ones.
const MOST: usize = 12;
/// Nobody types more of a word.
const LONGEST: usize = 40;

/// Lower-case runs of letters and digits.
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
