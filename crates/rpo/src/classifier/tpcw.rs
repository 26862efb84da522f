//! The classes of TPC-W and what they are friendly to: Table V of the paper. Order Inquiry and
//! Order Display are in no class there; like all that asks for orders they are taken for
//! NOHT-friendly.

use super::Friendly::{self, AllThreads, OnePerCore};

/// An interaction: its name, whom it is friendly to, its paths in this project's bookstore, and
/// the names of its page in the classic PHP and servlet versions.
struct Interaction {
    name: &'static str,
    friendly: Friendly,
    patterns: &'static [&'static str],
}

const fn interaction(
    name: &'static str,
    friendly: Friendly,
    patterns: &'static [&'static str],
) -> Interaction {
    Interaction {
        name,
        friendly,
        patterns,
    }
}

const INTERACTIONS: [Interaction; 14] = [
    interaction(
        "home",
        AllThreads,
        &["GET /", "**/home.php", "**/TPCW_home_interaction*"],
    ),
    interaction(
        "new_products",
        AllThreads,
        &["GET /new", "**/newProducts.php", "**/TPCW_new_products_*"],
    ),
    interaction(
        "best_sellers",
        AllThreads,
        &["GET /best", "**/bestSellers.php", "**/TPCW_best_sellers_*"],
    ),
    interaction(
        "product_detail",
        AllThreads,
        &[
            "GET /item/*",
            "**/productDetail.php",
            "**/TPCW_product_detail_*",
        ],
    ),
    interaction(
        "search_request",
        OnePerCore,
        &[
            "GET /search",
            "**/searchRequest.php",
            "**/TPCW_search_request_*",
        ],
    ),
    interaction(
        "search_results",
        OnePerCore,
        &[
            "GET /results",
            "**/searchResults.php",
            "**/TPCW_execute_search*",
        ],
    ),
    interaction(
        "shopping_cart",
        OnePerCore,
        &["/cart", "**/shoppingCart.php", "**/TPCW_shopping_cart_*"],
    ),
    interaction(
        "customer_registration",
        OnePerCore,
        &[
            "/register",
            "**/customerRegistration.php",
            "**/TPCW_customer_registration_*",
        ],
    ),
    interaction(
        "buy_request",
        OnePerCore,
        &["GET /buy", "**/buyRequest.php", "**/TPCW_buy_request_*"],
    ),
    interaction(
        "buy_confirm",
        OnePerCore,
        &["POST /buy", "**/buyConfirm.php", "**/TPCW_buy_confirm_*"],
    ),
    interaction(
        "order_inquiry",
        OnePerCore,
        &[
            "GET /order",
            "**/orderInquiry.php",
            "**/TPCW_order_inquiry_*",
        ],
    ),
    interaction(
        "order_display",
        OnePerCore,
        &[
            "POST /order",
            "GET /order/*",
            "**/orderDisplay.php",
            "**/TPCW_order_display_*",
        ],
    ),
    interaction(
        "admin_request",
        OnePerCore,
        &[
            "GET /admin/item/*",
            "**/adminRequest.php",
            "**/TPCW_admin_request_*",
        ],
    ),
    interaction(
        "admin_confirm",
        OnePerCore,
        &[
            "POST /admin/item/*",
            "**/adminConfirm.php",
            "**/TPCW_admin_response_*",
        ],
    ),
];

/// Patterns, their class and whom it is friendly to.
pub(super) fn rules() -> impl Iterator<Item = (&'static str, &'static str, Option<Friendly>)> {
    INTERACTIONS.iter().flat_map(|one| {
        one.patterns
            .iter()
            .map(|pattern| (*pattern, one.name, Some(one.friendly)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::Classifier;

    #[test]
    fn the_bookstores_pages_and_the_classic_ones_are_known() {
        let mut classifier = Classifier::tpcw();
        assert_eq!(classifier.table().count(), 15);
        for (method, path, name, friendly) in [
            ("GET", "/", "home", AllThreads),
            ("GET", "/item/17", "product_detail", AllThreads),
            ("GET", "/best?subject=ARTS", "best_sellers", AllThreads),
            ("GET", "/results?q=a", "search_results", OnePerCore),
            ("GET", "/buy", "buy_request", OnePerCore),
            ("POST", "/buy", "buy_confirm", OnePerCore),
            ("GET", "/order/last", "order_display", OnePerCore),
            ("POST", "/admin/item/3", "admin_confirm", OnePerCore),
            ("GET", "/tpcw/bestSellers.php", "best_sellers", AllThreads),
            (
                "GET",
                "/servlet/TPCW_home_interaction;x",
                "home",
                AllThreads,
            ),
        ] {
            let class = classifier.classify(method, path);
            let class = classifier.table().get(class);
            assert_eq!(
                (class.name.as_str(), class.friendly),
                (name, Some(friendly)),
                "{path}"
            );
        }
        assert_eq!(
            classifier.classify("GET", "/static/logo.png"),
            crate::ClassId::OTHER
        );
    }
}
