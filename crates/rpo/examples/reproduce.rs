//! The paper's tables from the model, as Markdown (and JSON with a second argument):
//!
//!     cargo run --release -p rhythm-rpo --example reproduce -- [SEEDS [FILE.json]]

use rhythm_rpo::model::Params;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds = arguments.first().map_or(Ok(30), |text| text.parse())?;
    let next = |what: &str| eprintln!("{what}");
    let report = rhythm_rpo::report::reproduce(&Params::paper()?, seeds, next)?;
    println!("{}", rhythm_rpo::report::markdown(&report));
    if let Some(file) = arguments.get(1) {
        std::fs::write(file, report.json()?)?;
    }
    Ok(())
}
