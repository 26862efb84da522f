//! Functions on numbers, and between numbers and texts.

use crate::batch::{Batch, Function};
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::functions;

/// Integers of all sizes, mostly at edges.
fn odd_int(dice: &mut Dice) -> i64 {
    let small = dice.below(7) as i64 - 3;
    match dice.below(6) {
        0 => small,
        1 => (1i64 << dice.below(63)).wrapping_add(small),
        2 => (1i64 << dice.below(63)).wrapping_neg().wrapping_add(small),
        3 => i64::MAX.wrapping_add(small),
        4 => 10i64.pow(dice.below(19) as u32) + small,
        _ => dice.roll() as i64 >> dice.below(64),
    }
}

#[test]
fn integers_are_as_the_reference_has_them() {
    let mut dice = Dice::new(5);
    let mut batch = Batch::default();
    let edges = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        10,
        62,
        63,
        64,
        i64::from(u32::MAX),
        i64::from(u32::MAX) + 1,
        3_037_000_499,
        -3_037_000_500,
        i64::MAX - 1,
        i64::MAX,
        i64::MIN,
        i64::MIN + 1,
    ];
    for a in edges {
        for b in edges {
            batch.add_ints(a, b);
        }
    }
    for _ in 0..2_500 {
        batch.add_ints(odd_int(&mut dice), odd_int(&mut dice));
        batch.add_ints(odd_int(&mut dice) % 20, odd_int(&mut dice) % 70);
    }
    for round in 0..20_000 {
        let value = match round {
            0..1_000 => round - 500,
            _ => odd_int(&mut dice),
        };
        let mut printed = Vec::new();
        functions::print_int(value, &mut printed);
        batch.add_number_text(std::str::from_utf8(&printed).unwrap());
        batch.add_writing(Function::PrintInt, &[], [value as u64, 0], printed);
    }
    for value in [false, true] {
        let expected = functions::print_bool(value).to_vec();
        batch.add_writing(Function::PrintBool, &[], [u64::from(value), 0], expected);
    }
    assert_eq!(batch.check(), 0);
}

/// Floats of all exponents, mostly at edges.
fn odd_float(dice: &mut Dice) -> f64 {
    let small = dice.below(5) as u64;
    let sign = u64::from(dice.once_in(4)) << 63;
    let magnitude = match dice.below(9) {
        // Any bits, NaN among them.
        0 => return f64::from_bits(dice.roll()),
        // Near a power of two.
        1 => f64::from_bits((((dice.below(2046) as u64 + 1) << 52) + small) - 2),
        // Subnormal.
        2 => f64::from_bits(dice.roll() >> (12 + dice.below(52))),
        // Prices.
        3 => dice.below(100_000_000) as f64 / 100.0,
        // Near a power of ten.
        4 => {
            let power: f64 = format!("1e{}", dice.below(632) as i32 - 323)
                .parse()
                .unwrap();
            f64::from_bits((power.to_bits() + small).saturating_sub(2))
        }
        // Near whole numbers of 53 and 63 bits.
        5 => 2f64.powi(53) + 2.0 * small as f64 - 4.0,
        6 => f64::from_bits(2f64.powi(63).to_bits() + small - 2),
        // With two to five binary places: some lie in the middle between their shortest decimals.
        7 => (dice.roll() >> 11) as f64 / f64::from(1 << (2 + dice.below(4))),
        _ => dice.below(1000) as f64 * 10f64.powi(dice.below(40) as i32 - 20),
    };
    f64::from_bits(magnitude.to_bits() | sign)
}

#[test]
fn floats_are_as_the_reference_has_them() {
    let mut dice = Dice::new(6);
    let mut batch = Batch::default();
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        0.5,
        2.5,
        -7.0,
        3.0,
        1e15,
        1e16,
        1e21,
        1e-7,
        5e-324,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::EPSILON,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        9_007_199_254_740_992.0,
        9_007_199_254_740_994.0,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        9_223_372_036_854_774_784.0,
        // In the middle between their shortest decimals.
        1_125_899_906_842_624.0 + 0.25,
        1_125_899_906_842_624.0 + 0.75,
        562_949_953_421_312.0 + 0.125,
        9.5e-7,
        123_456_789_012_345.68,
    ];
    for a in edges {
        batch.add_float(a);
        for b in edges {
            batch.add_floats(a, b);
        }
    }
    for exponent in 0..2047u64 {
        for fraction in [0, 1, dice.roll() >> 12, (1 << 52) - 1] {
            batch.add_float(f64::from_bits(exponent << 52 | fraction));
        }
    }
    for _ in 0..15_000 {
        batch.add_float(odd_float(&mut dice));
    }
    for _ in 0..3_000 {
        let a = odd_float(&mut dice);
        let near = a * (1.0 + dice.below(9) as f64);
        batch.add_floats(a, odd_float(&mut dice));
        batch.add_floats(near, a);
    }
    batch.check();
}

#[test]
fn texts_are_read_as_numbers_as_in_rust() {
    let mut dice = Dice::new(7);
    let mut batch = Batch::default();
    for text in [
        "",
        "+",
        "-",
        ".",
        "+.",
        "e",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1e-",
        "1.",
        ".5",
        "-.5",
        "+1.5e+3",
        "1E5",
        "1.5e-3x",
        " 1",
        "1 ",
        "1_0",
        "0x10",
        "inf",
        "INF",
        "+Inf",
        "-inf",
        "infinity",
        "-InFiNiTy",
        "infinit",
        "infinityx",
        "nan",
        "NaN",
        "-nan",
        "nanx",
        "na",
        "00",
        "-0",
        "0e0",
        "0.0e99999999999",
        "1e400",
        "-1e400",
        "1e-400",
        "1e308",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "17976931348623158079e289",
        "4.9e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.5e-324",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "9007199254740993",
        "9007199254740992.5",
        "9007199254740993.0",
        "0.1",
        "1e22",
        "1e23",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999999",
        "+000000000000000000000000000000012",
        "1e18",
        "1e19",
        "-1e3",
        "2.9",
        "-2.9",
        "1e9999999999999999999",
        "1e-9999999999999999999",
        "0.00000000000000000000000000000000000001e38",
        "é",
        "1é",
        "1..2",
        "1e5.0",
        "--1",
        "+-1",
        "1e5e5",
        "12345678901234567890",
        "1234567890123456789012e-3",
    ] {
        batch.add_number_text(text);
    }
    // Digits that outweigh exponents, one of which is longer than Rust reads.
    let million = "0".repeat(1_000_000);
    batch.add_number_text(&format!("1{million}e-1000000"));
    for zeros in [300, 400, 70_000] {
        let zeros = "0".repeat(zeros);
        for text in [
            format!("1{zeros}e-{}", zeros.len()),
            format!("0.{zeros}1e{}", zeros.len() + 1),
            format!("{zeros}12.5{zeros}"),
            format!("1{zeros}"),
            format!("1.{zeros}1"),
        ] {
            batch.add_number_text(&text);
        }
    }
    for _ in 0..8_000 {
        let value = odd_float(&mut dice);
        batch.add_number_text(&format!("{value}"));
        batch.add_number_text(&format!("{value:e}"));
        batch.add_number_text(&format!("{value:.16e}"));
        // Up to 19 digits with any exponent.
        let digits = dice.roll() % 10u64.pow(1 + dice.below(19) as u32);
        let text = format!("{digits}e{}", dice.below(700) as i32 - 360);
        batch.add_number_text(&text);
        let point = dice.below(text.len() - 1);
        batch.add_number_text(&format!("{}.{}", &text[..point], &text[point..]));
    }
    assert!(batch.check() <= 20, "few are left to the host");
}

#[test]
fn long_texts_between_two_floats_are_read_or_left_to_the_host() {
    let mut dice = Dice::new(8);
    let mut batch = Batch::default();
    for _ in 0..1_000 {
        let low = f64::from_bits(
            odd_float(&mut dice)
                .abs()
                .to_bits()
                .min(f64::MAX.to_bits() - 1),
        );
        let high = f64::from_bits(low.to_bits() + 1);
        // Both halves are exact, but for the least ones.
        let middle = format!("{:.1080}", low / 2.0 + high / 2.0);
        batch.add_number_text(&middle);
        batch.add_number_text(&format!("{middle}1"));
        batch.add_number_text(&format!("{low:.60}"));
        batch.add_number_text(&format!("{low:.25e}"));
    }
    batch.check();
}
