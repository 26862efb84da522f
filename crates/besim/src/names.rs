//! The words BeSim's answers are made of.
//!
//! Some have apostrophes, quotes and slashes, so that pages that do not escape are found out. None
//! has what an answer or a test for `&` could trip over: `&`, `<`, `>`, control characters,
//! anything but ASCII.

/// Streets without the house's number.
pub const STREETS: [&str; 32] = [
    "Maple Avenue",
    "O'Brien Street",
    "Harbor Road",
    "King's Court",
    "St. Mary's Lane",
    "Mill Lane",
    "Old Post Road",
    "\"B\" Street",
    "Orchard Way",
    "Quarry Hill",
    "Route 9/20",
    "Foundry Street",
    "D'Arcy Place",
    "Lakeview Drive",
    "Chestnut Street",
    "Bishop's Gate",
    "Cooper Street",
    "North 3rd Street",
    "Prospect Park W",
    "Fisherman's Wharf",
    "Elm Street, Apt. 4",
    "Hazel Terrace",
    "Station Square",
    "Juniper Court",
    "\"The Elms\" Drive",
    "Sycamore Street",
    "Meadow Lane",
    "County Road 12/A",
    "Widow's Walk",
    "Lighthouse Point",
    "Carpenter Street",
    "Summit Avenue",
];

/// A city, its state, and the first three digits of its ZIP codes.
pub const CITIES: [(&str, &str, u32); 32] = [
    ("Coeur d'Alene", "ID", 838),
    ("Springfield", "IL", 627),
    ("Portland", "ME", 41),
    ("Land O' Lakes", "FL", 346),
    ("Salem", "OR", 973),
    ("Burlington", "VT", 54),
    ("O'Fallon", "MO", 633),
    ("Albany", "NY", 122),
    ("Boise", "ID", 837),
    ("Lee's Summit", "MO", 640),
    ("Dover", "DE", 199),
    ("Concord", "NH", 33),
    ("Madison", "WI", 537),
    ("Fort Wayne", "IN", 468),
    ("Duluth", "MN", 558),
    ("Winston-Salem", "NC", 271),
    ("Santa Fe", "NM", 875),
    ("Provo", "UT", 846),
    ("Laramie", "WY", 820),
    ("Bozeman", "MT", 597),
    ("Savannah", "GA", 314),
    ("Mobile", "AL", 366),
    ("Tulsa", "OK", 741),
    ("Wichita", "KS", 672),
    ("Des Moines", "IA", 503),
    ("Omaha", "NE", 681),
    ("Fargo", "ND", 581),
    ("Rapid City", "SD", 577),
    ("Galveston", "TX", 775),
    ("D'Iberville", "MS", 395),
    ("Eureka", "CA", 955),
    ("Olympia", "WA", 985),
];

/// First names as they stand in addresses of e-mail.
pub const FIRST_NAMES: [&str; 16] = [
    "ada", "ben", "carla", "dmitri", "elena", "felix", "grace", "hugo", "ines", "jonas", "kira",
    "liam", "mary", "nils", "olga", "pedro",
];

/// Whom checks are made out to.
pub const PAYEES: [&str; 32] = [
    "O'Brien's Hardware",
    "City Water Works",
    "Joe \"JJ\" Jay",
    "Maple Dental Group",
    "Smith/Jones Partners",
    "Harbor Gas and Light",
    "St. Mary's School",
    "Dr. D'Angelo",
    "Corner Grocery",
    "Rita's Flowers",
    "North Telephone",
    "Lakeview Rentals",
    "County of Ash",
    "\"Zum Anker\" Inn",
    "Miller Roofing",
    "Farmers' Market",
    "Dolan's Garage",
    "Orchard Day Care",
    "Parker Books",
    "Summit Insurance",
    "State University",
    "Kim's Cleaners",
    "Pine Furniture",
    "Bell/Ward Plumbing",
    "Union Gym",
    "Women's Clinic",
    "The \"Blue\" Cafe",
    "Quarry Stone Co.",
    "Valley Cable",
    "Ray's Bicycles",
    "Youth Orchestra",
    "Ferry Line 3/7",
];

/// What checks are for.
pub const MEMOS: [&str; 16] = [
    "rent",
    "invoice 17/3",
    "groceries",
    "children's shoes",
    "insurance",
    "dues",
    "\"thank you\"",
    "repairs",
    "books",
    "tuition 1/2",
    "the doctor's bill",
    "firewood",
    "donation",
    "water and gas",
    "wedding gift",
    "car tax",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_upsets_the_protocol() {
        let words = (STREETS
            .iter()
            .chain(&FIRST_NAMES)
            .chain(&PAYEES)
            .chain(&MEMOS)
            .copied())
        .chain(CITIES.iter().flat_map(|city| [city.0, city.1]));
        for word in words {
            assert!(
                word.bytes()
                    .all(|b| (0x20..0x7f).contains(&b) && !b"&<>".contains(&b)),
                "{word}"
            );
            assert_eq!(word.trim(), word);
        }
    }
}
