//! How long it takes; for people, who run it in a release build.

use std::time::Instant;

use super::*;

const ROUNDS: u32 = 2_000;

#[tokio::test]
#[ignore = "measures; says nothing about right and wrong"]
#[allow(clippy::disallowed_methods, reason = "measuring is what it is for")]
async fn how_long_a_phase_takes() {
    let begun = Instant::now();
    let scripts = limited(ScriptLimits::default());
    evaluate(&scripts, step("return 1")).await.unwrap();
    println!("first phase, with the start of its child: {:?}", begun.elapsed());
    let module = format!(
        "export default workflow({{ run: async (ctx, state) => state, {} }})",
        "f() { return [1, 2, 3].map(x => x * 2) },".repeat(200)
    );
    let cases = [
        ("return 1", step("return 1")),
        ("a call to the host", step("return (await ctx.fetch('http://a')).status")),
        ("a module of 200 functions", handler(&module, &["run"], Permits::PRODUCER)),
    ];
    for (what, evaluation) in cases {
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            evaluate(&scripts, evaluation.clone()).await.unwrap();
        }
        println!("{what}: {:?}", begun.elapsed() / ROUNDS);
    }
}
