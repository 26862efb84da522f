//! Texts of others on a terminal.

/// A line of others' as it can be shown on a terminal, which would obey some of it otherwise.
pub(super) fn shown(text: &str) -> String {
    let line = text.trim_end_matches(['\r', '\n']);
    let mut shown = String::new();
    for letter in line.chars() {
        match letter {
            ' '..='~' => shown.push(letter),
            _ => shown.extend(letter.escape_default()),
        }
    }
    shown
}
