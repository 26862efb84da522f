//! Names in braces, which stand for what is known when a server is started.

use std::collections::BTreeMap;

/// What names stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    pub(super) fn set(&mut self, name: &str, value: impl ToString) {
        self.0.insert(name.to_owned(), value.to_string());
    }

    /// Has these, too, whose values may have names themselves.
    ///
    /// # Errors
    /// As of [`Names::put`].
    pub(super) fn set_all(&mut self, values: &BTreeMap<String, String>) -> Result<(), String> {
        for (name, value) in values {
            let value = self.put(value)?;
            self.set(name, value);
        }
        Ok(())
    }

    /// A text with values in place of names. Braces round anything else stay.
    ///
    /// # Errors
    /// A name that stands for nothing.
    pub(super) fn put(&self, text: &str) -> Result<String, String> {
        let mut put = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            put.push_str(before);
            let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            let end = from[1..].find(|letter| !is_of_name(letter));
            let name = match end {
                Some(end) if end > 0 && from[1 + end..].starts_with('}') => &from[1..=end],
                _ => {
                    put.push('{');
                    rest = &from[1..];
                    continue;
                }
            };
            let value = self.0.get(name);
            put.push_str(value.ok_or_else(|| format!("{{{name}}} stands for nothing here"))?);
            rest = &from[name.len() + 2..];
        }
        put.push_str(rest);
        Ok(put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_and_other_braces_stay() {
        let mut names = Names::default();
        names.set("port", 80);
        assert_eq!(
            names.put("a {port}:{port} { port } {} {P} {"),
            Ok("a 80:80 { port } {} {P} {".to_owned())
        );
        let more = [("listen".to_owned(), "[{port}]".to_owned())].into();
        names.set_all(&more).expect("they are known");
        assert_eq!(names.put("{listen}"), Ok("[80]".to_owned()));
        let error = names.put("{nothing}").expect_err("it is unknown");
        assert_eq!(error, "{nothing} stands for nothing here");
    }
}
