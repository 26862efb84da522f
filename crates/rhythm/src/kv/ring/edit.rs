//! Changes to the file of a ring: what its author wrote stays as it is, the file is whole at any
//! time, and of changes that come together none is lost.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Has a file changed: what it says is given, and what it is to say comes back.
pub(super) fn change(file: &Path, change: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let shown = file.display();
    // The file itself, where links lead to it.
    let file = file.canonicalize();
    let file = file.with_context(|| format!("cannot find {shown}"))?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    // The file will be another one, its folder is the same.
    let lock = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    let lock = lock.with_context(|| format!("cannot lock {}", folder.display()))?;
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {shown}"))?;
    let text = change(&text)?;
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(".rhythm");
    let beside = &folder.join(name);
    // It was left by one who was killed: whoever makes it has the lock.
    let _ = fs::remove_file(beside);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside);
    let made = made.with_context(|| format!("cannot make {}", beside.display()))?;
    let written = replace(made, beside, &file, &text).and_then(|()| match lock.sync_all() {
        // Not all file systems know that of a folder.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    });
    if written.is_err() {
        // It was made here.
        let _ = fs::remove_file(beside);
    }
    written.with_context(|| format!("cannot write {shown}"))
}

/// Puts a new file in the place of another, whose it was and may be read by whom that may.
fn replace(mut new: File, beside: &Path, file: &Path, text: &str) -> std::io::Result<()> {
    let (old, made) = (fs::metadata(file)?, new.metadata()?);
    if (old.uid(), old.gid()) != (made.uid(), made.gid()) {
        fchown(&new, Some(old.uid()), Some(old.gid()))?;
    }
    new.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
    new.write_all(text.as_bytes())?;
    new.sync_all()?;
    fs::rename(beside, file)
}

/// Where nodes stand in a text, and whether they are a list in brackets.
struct Nodes {
    places: Vec<Range<usize>>,
    is_list: bool,
}

impl Nodes {
    fn of(text: &str) -> Result<Nodes> {
        let table = DeTable::parse(text)?;
        let listed = table.get_ref().get("node");
        let listed = listed.and_then(|nodes| nodes.get_ref().as_array());
        let listed = listed.context("`node` is a list of tables")?;
        let is_list = listed
            .first()
            .is_some_and(|node| text[node.span()].starts_with('{'));
        let place = |node: &Spanned<DeValue<'_>>| {
            let values = node
                .get_ref()
                .as_table()
                .into_iter()
                .flat_map(DeTable::values);
            let ends = values.map(|value| value.span().end);
            let Range { start, end } = node.span();
            start..ends.fold(end, usize::max)
        };
        Ok(Nodes {
            places: listed.iter().map(place).collect(),
            is_list,
        })
    }
}

/// The text of a file with a node more, the last.
pub(super) fn with(text: &str, node: &[(&str, &str)]) -> Result<String> {
    let nodes = Nodes::of(text)?;
    let fields = node.iter().map(|(key, value)| format!("{key} = {value:?}"));
    let fields: Vec<String> = fields.collect();
    match nodes.places.last().filter(|_| nodes.is_list) {
        Some(last) => {
            // As the one before: behind it, or on a line of its own.
            let line = &text[begin_of_line(text, last.start)..last.start];
            let between = match line.trim().is_empty() {
                true => format!(",\n{line}"),
                false => ", ".to_owned(),
            };
            let (before, after) = text.split_at(last.end);
            Ok(format!(
                "{before}{between}{{ {} }}{after}",
                fields.join(", ")
            ))
        }
        None => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            Ok(format!("{text}{end}\n[[node]]\n{}\n", fields.join("\n")))
        }
    }
}

/// The text of a file without one of its nodes, which are so many in this order.
pub(super) fn without(text: &str, index: usize) -> Result<String> {
    let nodes = Nodes::of(text)?;
    let place = nodes.places.get(index).context("there is no such node")?;
    let (mut start, mut end) = (place.start, place.end);
    if nodes.is_list {
        // The comma behind it, or the one before it.
        let after = &text[end..];
        match after.trim_start().strip_prefix(',') {
            Some(left) => end = text.len() - left.len(),
            None => {
                let before = text[..start].trim_end();
                start = before.strip_suffix(',').map_or(start, str::len);
            }
        }
        let line = begin_of_line(text, start);
        if text[line..start].trim().is_empty() && text[end..].starts_with('\n') {
            (start, end) = (line, end + 1);
        }
    } else {
        start = begin_of_line(text, start);
        end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        // With the comment that stands right above it.
        while start > 0 {
            let above = begin_of_line(text, start - 1);
            if !text[above..start].trim_start().starts_with('#') {
                break;
            }
            start = above;
        }
        // Of the empty lines on both sides, those of one.
        if start == 0 || text[..start].ends_with("\n\n") {
            end = text.len() - text[end..].trim_start_matches('\n').len();
        }
    }
    Ok(format!("{}{}", &text[..start], &text[end..]))
}

fn begin_of_line(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const FILE: &str = "# The ring of the shop.

# In the first rack:
[[node]]
name = \"a\" # the old one
client = \"cache-1\"

# In the second:
[[node]]
name = \"b\"
client = 'cache-2'
# Until it is replaced.
";

    const C: [(&str, &str); 2] = [("name", "c"), ("client", "cache-3")];

    #[test]
    fn what_the_author_wrote_stays() {
        let added = "\n[[node]]\nname = \"c\"\nclient = \"cache-3\"\n";
        let three = with(FILE, &C).unwrap();
        assert_eq!(three, format!("{FILE}{added}"));
        let (a, b) = FILE.split_once("# In the second").unwrap();
        let head = "# The ring of the shop.\n\n";
        assert_eq!(
            without(FILE, 0).unwrap(),
            format!("{head}# In the second{b}")
        );
        assert_eq!(
            without(FILE, 1).unwrap(),
            format!("{a}# Until it is replaced.\n")
        );
        let note = "# Until it is replaced.\n";
        // What follows a table is not what stands above the next one.
        assert_eq!(without(&three, 2).unwrap(), format!("{FILE}\n"));
        assert!(
            without(&three, 1)
                .unwrap()
                .ends_with(&format!("{note}{added}"))
        );
        assert!(without(FILE, 2).is_err());
    }

    #[test]
    fn a_list_stays_one() {
        let list = "node = [\n    # One.\n    { name = \"a\" },\n    { name = \"b\" },\n]\n";
        let three = with(list, &C).unwrap();
        let c = "    { name = \"c\", client = \"cache-3\" },\n";
        assert_eq!(three, format!("{}{c}]\n", &list[..list.len() - 2]));
        assert_eq!(without(&three, 2).unwrap(), list);
        assert!(!without(&three, 0).unwrap().contains("\"a\""));
        let line = "node = [{ name = \"a\" }, { name = \"b\" }]";
        let one = "node = [{ name = \"a\" }]";
        assert_eq!(without(line, 1).unwrap(), one);
        assert_eq!(without(line, 0).unwrap(), "node = [ { name = \"b\" }]");
        assert_eq!(with(one, &[("name", "b")]).unwrap(), line);
        assert!(with("node = 1", &C).is_err());
    }

    #[test]
    fn a_file_stays_where_and_whose_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, beside] =
            ["ring", "link", ".ring.rhythm"].map(|it| folder.path().join(it));
        fs::write(&file, FILE).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("ring", &link).unwrap();
        change(&link, |text| with(text, &C)).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let made = fs::metadata(&file).unwrap();
        assert_eq!(made.mode() & 0o7777, 0o640);
        assert!(fs::read_to_string(&file).unwrap().contains("cache-3"));
        // What one who was killed left is in nobody's way, and nothing of a failure is left.
        fs::write(&beside, "half").unwrap();
        change(&link, |text| Ok(format!("{text}# more\n"))).unwrap();
        assert!(fs::read_to_string(&file).unwrap().ends_with("# more\n"));
        assert!(!beside.exists());
        assert!(change(&link, |text| without(text, 9)).is_err());
        assert!(!beside.exists());
    }

    #[test]
    fn changes_at_once_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ring");
        fs::write(&file, FILE).unwrap();
        std::thread::scope(|scope| {
            for name in ["c", "d", "e", "f", "g", "h"] {
                scope.spawn(|| change(&file, |text| with(text, &[("name", name)])).unwrap());
            }
        });
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("[[node]]").count(), 8, "{text}");
    }
}
