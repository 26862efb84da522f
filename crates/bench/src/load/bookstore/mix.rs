//! TPC-W's fourteen web interactions, and who goes where from each of them: the standard's three
//! mixes (clause 5.2), and the RPO paper's custom ones (*rpo-smt*, IV-B).

use super::super::rng::Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! interactions {
    ($($variant:ident $short:literal $name:literal,)*) => {
        /// The interactions, in the order of the standard's table of mixes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Interaction {
            $(#[doc = $name] $variant,)*
        }

        impl Interaction {
            pub(crate) const ALL: [Interaction; 14] = [$(Interaction::$variant),*];

            /// Its name in a report.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Interaction::$variant => $name,)* }
            }

            /// What its page calls itself: the standard's name of four letters.
            pub(crate) const fn short(self) -> &'static str {
                match self { $(Interaction::$variant => $short,)* }
            }
        }
    };
}

interactions! {
    Home "HOME" "home",
    NewProducts "NEWP" "new_products",
    BestSellers "BESS" "best_sellers",
    ProductDetail "PROD" "product_detail",
    SearchRequest "SREQ" "search_request",
    SearchResults "SRES" "search_results",
    ShoppingCart "SHOP" "shopping_cart",
    CustomerRegistration "CREG" "customer_registration",
    BuyRequest "BUYR" "buy_request",
    BuyConfirm "BUYC" "buy_confirm",
    OrderInquiry "ORDI" "order_inquiry",
    OrderDisplay "ORDD" "order_display",
    AdminRequest "ADMR" "admin_request",
    AdminConfirm "ADMC" "admin_confirm",
}

use Interaction::*;

/// Where who has not begun is.
impl Default for Interaction {
    fn default() -> Interaction {
        Home
    }
}

impl Interaction {
    /// Of the paper's two classes, whether this is the one that gains from SMT (*rpo-smt*, Table
    /// V): what is read from few tables.
    pub(crate) const fn is_friendly(self) -> bool {
        matches!(self, Home | NewProducts | BestSellers | ProductDetail)
    }
}

/// Where users go: below which of 9999 draws they come to which interaction (the standard's tables
/// are so written).
type Row = &'static [(Interaction, u32)];

/// How many draws there are.
const DRAWS: u32 = 9999;

const fn browsing(from: Interaction) -> Row {
    match from {
        Home => &[
            (BestSellers, 3792),
            (NewProducts, 7585),
            (OrderInquiry, 7688),
            (SearchRequest, 9559),
            (ShoppingCart, DRAWS),
        ],
        NewProducts => &[
            (Home, 299),
            (ProductDetail, 9867),
            (SearchRequest, 9941),
            (ShoppingCart, DRAWS),
        ],
        BestSellers => &[
            (Home, 4607),
            (ProductDetail, 5259),
            (SearchRequest, 9942),
            (ShoppingCart, DRAWS),
        ],
        ProductDetail => &[
            (AdminRequest, 47),
            (Home, 8346),
            (ProductDetail, 9749),
            (SearchRequest, 9890),
            (ShoppingCart, DRAWS),
        ],
        SearchRequest => &[(Home, 788), (SearchResults, 9955), (ShoppingCart, DRAWS)],
        SearchResults => &[
            (Home, 3674),
            (ProductDetail, 9868),
            (SearchRequest, 9942),
            (ShoppingCart, DRAWS),
        ],
        ShoppingCart => &[
            (CustomerRegistration, 4099),
            (Home, 8883),
            (ShoppingCart, DRAWS),
        ],
        CustomerRegistration => &[(BuyRequest, 9145), (Home, 9619), (SearchRequest, DRAWS)],
        BuyRequest => &[(BuyConfirm, 9199), (Home, 9595), (ShoppingCart, DRAWS)],
        BuyConfirm => &[(Home, 342), (SearchRequest, DRAWS)],
        OrderInquiry => &[(Home, 523), (OrderDisplay, 8856), (SearchRequest, DRAWS)],
        OrderDisplay => &[(Home, 802), (SearchRequest, DRAWS)],
        AdminRequest => &[(AdminConfirm, 8999), (Home, DRAWS)],
        AdminConfirm => &[(Home, 9877), (SearchRequest, DRAWS)],
    }
}

const fn shopping(from: Interaction) -> Row {
    match from {
        Home => &[
            (BestSellers, 3124),
            (NewProducts, 6249),
            (OrderInquiry, 6718),
            (SearchRequest, 7026),
            (ShoppingCart, DRAWS),
        ],
        NewProducts => &[
            (Home, 156),
            (ProductDetail, 9735),
            (SearchRequest, 9784),
            (ShoppingCart, DRAWS),
        ],
        BestSellers => &[
            (Home, 167),
            (ProductDetail, 472),
            (SearchRequest, 9927),
            (ShoppingCart, DRAWS),
        ],
        ProductDetail => &[
            (AdminRequest, 58),
            (Home, 832),
            (ProductDetail, 1288),
            (SearchRequest, 8603),
            (ShoppingCart, DRAWS),
        ],
        SearchRequest => &[(Home, 635), (SearchResults, 9135), (ShoppingCart, DRAWS)],
        SearchResults => &[
            (Home, 2657),
            (ProductDetail, 9294),
            (SearchRequest, 9304),
            (ShoppingCart, DRAWS),
        ],
        ShoppingCart => &[
            (CustomerRegistration, 2585),
            (Home, 9552),
            (ShoppingCart, DRAWS),
        ],
        CustomerRegistration => &[(BuyRequest, 8666), (Home, 8760), (SearchRequest, DRAWS)],
        BuyRequest => &[(BuyConfirm, 4614), (Home, 6546), (ShoppingCart, DRAWS)],
        BuyConfirm => &[(Home, 84), (SearchRequest, DRAWS)],
        OrderInquiry => &[(Home, 72), (OrderDisplay, 8872), (SearchRequest, DRAWS)],
        OrderDisplay => &[(Home, 69), (SearchRequest, DRAWS)],
        AdminRequest => &[(AdminConfirm, 8999), (Home, DRAWS)],
        AdminConfirm => &[(Home, 9952), (SearchRequest, DRAWS)],
    }
}

const fn ordering(from: Interaction) -> Row {
    match from {
        Home => &[
            (BestSellers, 499),
            (NewProducts, 999),
            (OrderInquiry, 1269),
            (SearchRequest, 1295),
            (ShoppingCart, DRAWS),
        ],
        NewProducts => &[
            (Home, 504),
            (ProductDetail, 9942),
            (SearchRequest, 9976),
            (ShoppingCart, DRAWS),
        ],
        BestSellers => &[
            (Home, 1),
            (ProductDetail, 333),
            (SearchRequest, 9998),
            (ShoppingCart, DRAWS),
        ],
        ProductDetail => &[
            (AdminRequest, 99),
            (Home, 3750),
            (ProductDetail, 5621),
            (SearchRequest, 6341),
            (ShoppingCart, DRAWS),
        ],
        SearchRequest => &[(Home, 815), (SearchResults, 9815), (ShoppingCart, DRAWS)],
        SearchResults => &[
            (Home, 486),
            (ProductDetail, 7817),
            (SearchRequest, 9998),
            (ShoppingCart, DRAWS),
        ],
        ShoppingCart => &[
            (CustomerRegistration, 9499),
            (Home, 9918),
            (ShoppingCart, DRAWS),
        ],
        CustomerRegistration => &[(BuyRequest, 9899), (Home, 9901), (SearchRequest, DRAWS)],
        BuyRequest => &[(BuyConfirm, 7999), (Home, 9453), (ShoppingCart, DRAWS)],
        BuyConfirm => &[(Home, 2), (SearchRequest, DRAWS)],
        OrderInquiry => &[(Home, 1168), (OrderDisplay, 9968), (SearchRequest, DRAWS)],
        OrderDisplay => &[(Home, 9939), (SearchRequest, DRAWS)],
        AdminRequest => &[(AdminConfirm, 8999), (Home, DRAWS)],
        AdminConfirm => &[(Home, 8348), (SearchRequest, DRAWS)],
    }
}

/// How one user walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Path {
    /// The standard's browsing mix.
    Browsing,
    /// Its shopping mix.
    #[default]
    Shopping,
    /// Its ordering mix.
    Ordering,
    /// As in the browsing mix, and of that what gains from SMT alone.
    Friendly,
    /// As in the ordering mix, and of that all else.
    Unfriendly,
}

impl Path {
    const fn row(self, from: Interaction) -> Row {
        match self {
            Path::Browsing | Path::Friendly => browsing(from),
            Path::Shopping => shopping(from),
            Path::Ordering | Path::Unfriendly => ordering(from),
        }
    }

    /// Whether users who walk so ask for this at all.
    const fn has(self, interaction: Interaction) -> bool {
        match self {
            Path::Friendly => interaction.is_friendly(),
            Path::Unfriendly => !interaction.is_friendly(),
            _ => true,
        }
    }

    /// Where a user begins.
    pub(crate) fn begin(self, rng: &mut Rng) -> Interaction {
        match self.has(Home) {
            true => Home,
            false => self.next(Home, rng),
        }
    }

    /// Where he goes from here; what he does not ask for he walks past.
    pub(crate) fn next(self, mut from: Interaction, rng: &mut Rng) -> Interaction {
        loop {
            let draw = 1 + rng.below(DRAWS);
            let row = self.row(from);
            let to = row.iter().find(|(_, below)| draw <= *below);
            from = to.map_or(Home, |(to, _)| *to);
            if self.has(from) {
                return from;
            }
        }
    }

    /// The shares of the interactions, in percent, that this leads to.
    fn shares(self) -> [f64; 14] {
        let mut here = [0.0; 14];
        here[Home as usize] = 1.0;
        // Half of all stay where they are in each turn, so that it does not swing.
        for _ in 0..4000 {
            let mut there = here.map(|share| share / 2.0);
            for from in Interaction::ALL {
                let mut below = 0;
                for (to, until) in self.row(from) {
                    let chance = f64::from(until - below) / f64::from(DRAWS);
                    there[*to as usize] += here[from as usize] * chance / 2.0;
                    below = *until;
                }
            }
            here = there;
        }
        for interaction in Interaction::ALL {
            if !self.has(interaction) {
                here[interaction as usize] = 0.0;
            }
        }
        let all: f64 = here.iter().sum();
        here.map(|share| 100.0 * share / all)
    }
}

/// A mix of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// TPC-W's browsing mix: 95 % look, 5 % order.
    Browsing,
    /// Its shopping mix, by which results are compared: 80 % and 20 %.
    #[default]
    Shopping,
    /// Its ordering mix: half and half.
    Ordering,
    /// The RPO paper's S(p): users of two kinds, those who only look and those who do all else,
    /// where the next who arrives is of the other kind with p percent. S(0) changes once: after a
    /// part of eleven.
    S(u8),
}

impl Mix {
    /// All that can be said.
    pub const ALL: [Mix; 7] = [
        Mix::Browsing,
        Mix::Shopping,
        Mix::Ordering,
        Mix::S(0),
        Mix::S(5),
        Mix::S(15),
        Mix::S(50),
    ];

    /// Pages of a visit on average. TPC-W's users stay for 15 minutes on average, and look at a
    /// page for 7 seconds; the paper's sessions have 8.6 requests.
    pub(crate) const fn visit_pages(self) -> f64 {
        match self {
            Mix::S(_) => 8.6,
            _ => 128.6,
        }
    }

    /// The shares of the interactions, in percent; half of the users of S(p) are of either kind,
    /// and of S(0) one of eleven looks.
    pub(crate) fn shares(self) -> [f64; 14] {
        match self {
            Mix::Browsing => Path::Browsing.shares(),
            Mix::Shopping => Path::Shopping.shares(),
            Mix::Ordering => Path::Ordering.shares(),
            Mix::S(switching) => {
                let looking = if switching == 0 { 1.0 / 11.0 } else { 0.5 };
                let (friendly, other) = (Path::Friendly.shares(), Path::Unfriendly.shares());
                std::array::from_fn(|at| looking * friendly[at] + (1.0 - looking) * other[at])
            }
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mix::Browsing => f.write_str("browsing"),
            Mix::Shopping => f.write_str("shopping"),
            Mix::Ordering => f.write_str("ordering"),
            Mix::S(switching) => write!(f, "s{switching}"),
        }
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let said = Mix::ALL.into_iter().find(|mix| mix.to_string() == text);
        said.ok_or_else(|| {
            let names: Vec<String> = Mix::ALL.iter().map(Mix::to_string).collect();
            format!("one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clause 5.2's shares, in percent, for the mixes of browsing, shopping and ordering.
    const STANDARD: [[f64; 3]; 14] = [
        [29.00, 16.00, 9.12],
        [11.00, 5.00, 0.46],
        [11.00, 5.00, 0.46],
        [21.00, 17.00, 12.35],
        [12.00, 20.00, 14.53],
        [11.00, 17.00, 13.08],
        [2.00, 11.60, 13.53],
        [0.82, 3.00, 12.86],
        [0.75, 2.60, 12.73],
        [0.69, 1.20, 10.18],
        [0.30, 0.75, 0.25],
        [0.25, 0.66, 0.22],
        [0.10, 0.10, 0.12],
        [0.09, 0.09, 0.11],
    ];

    #[test]
    fn the_matrices_lead_to_the_standard_s_shares() {
        let paths = [Path::Browsing, Path::Shopping, Path::Ordering];
        for (of, path) in paths.into_iter().enumerate() {
            let shares = path.shares();
            for interaction in Interaction::ALL {
                let (found, due) = (
                    shares[interaction as usize],
                    STANDARD[interaction as usize][of],
                );
                assert!(
                    (found - due).abs() < 0.015,
                    "{path:?} {interaction:?}: {found}"
                );
            }
        }
    }

    #[test]
    fn a_row_ends_with_all_draws() {
        for path in [Path::Browsing, Path::Shopping, Path::Ordering] {
            for from in Interaction::ALL {
                let row = path.row(from);
                assert!(row.is_sorted_by(|one, next| one.1 < next.1), "{from:?}");
                assert_eq!(row.last().unwrap().1, DRAWS, "{from:?}");
            }
        }
    }

    #[test]
    fn walks_have_the_shares_of_their_kind() {
        for path in [Path::Shopping, Path::Friendly, Path::Unfriendly] {
            let mut rng = Rng::new(1);
            let mut counts = [0_u32; 14];
            let mut at = path.begin(&mut rng);
            for _ in 0..200_000 {
                counts[at as usize] += 1;
                at = path.next(at, &mut rng);
            }
            for (count, share) in counts.into_iter().zip(path.shares()) {
                assert!(
                    (f64::from(count) / 2000.0 - share).abs() < 0.6,
                    "{path:?}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn names() {
        for mix in Mix::ALL {
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        assert!("s7".parse::<Mix>().is_err());
    }
}
