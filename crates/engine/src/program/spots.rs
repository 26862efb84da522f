//! Where in the sources what a stage computes stands, for whoever tells of a failure.

use super::value::Register;

/// Where in the sources of a page something is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot<'a> {
    /// The file, relative to the service's folder.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u32,
    /// The number of the `[[step]]` it is part of, from 1; none for what is in the template.
    pub step: Option<u16>,
}

/// The spots of a stage's registers: of what computes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spots {
    files: Vec<Box<str>>,
    /// By register: which file, which line, and the number of the step, or 0.
    registers: Vec<(u16, u32, u16)>,
}

impl Spots {
    /// That of a register, if it is known.
    pub fn of(&self, register: Register) -> Option<Spot<'_>> {
        let (file, line, step) = *self.registers.get(usize::from(register))?;
        Some(Spot {
            file: self.files.get(usize::from(file))?,
            line,
            step: (step > 0).then_some(step),
        })
    }

    /// Adds the next register's.
    pub(crate) fn push(&mut self, spot: Option<Spot<'_>>) {
        let entry = spot.and_then(|spot| {
            let known = self.files.iter().rposition(|file| **file == *spot.file);
            let file = known.unwrap_or_else(|| {
                self.files.push(spot.file.into());
                self.files.len() - 1
            });
            let file = u16::try_from(file).ok()?;
            Some((file, spot.line, spot.step.unwrap_or(0)))
        });
        self.registers.push(entry.unwrap_or((u16::MAX, 0, 0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_its_own() {
        let spot = |file, line, step| Spot { file, line, step };
        let mut spots = Spots::default();
        let told = [
            Some(spot("pages/a.html", 3, Some(1))),
            None,
            Some(spot("templates/b.html", 7, None)),
            Some(spot("pages/a.html", 9, None)),
        ];
        told.iter().for_each(|spot| spots.push(*spot));
        for (register, spot) in (0..).zip(told) {
            assert_eq!(spots.of(register), spot);
        }
        assert_eq!(spots.of(4), None);
        assert_eq!(spots.files.len(), 2);
    }
}
