"""Prints the rows of benches next to the published ones: python3 table.py game24_published.json BENCH...

The published rows of Tree of Thoughts (arXiv 2305.10601) are GPT-4 with five examples, not fine-tuned. They count a game if any of the ends is right; a search here has
both counts, that of its chosen answer and that of any end that it kept.
"""

import json
import pathlib
import sys


def percent(share):
    return f"{100 * share:.1f} %"


def main(published, *benches):
    path = pathlib.Path(published)
    published = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": {}, "paper": {}}
    print("| row | chosen answer | 95 % interval | any end | tokens a game | TFLOPs a game | seconds a game |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for bench in benches:
        report = json.loads((pathlib.Path(bench) / "results.json").read_text(encoding="utf-8"))
        for row in report["summary"]:
            ledger, searches = row["ledger"], row["searches"]
            flops = sum(ledger.get(part) or 0 for part in ("generate_flops", "score_flops")) / searches
            ends = f"{percent(row['accuracy_low'])} to {percent(row['accuracy_high'])}"
            any_end = percent(row["any"]["share"]) if row.get("any") else "-"
            mark = " (sees the verifier)" if row.get("sees_outcomes") else ""
            print(
                f"| {row['name']}{mark} | {percent(row['accuracy'])} | {ends} | {any_end} | {ledger['generated_tokens'] / searches:,.0f} "
                f"| {flops / 1e12:.3f} | {ledger['seconds'] / searches:.2f} |"
            )
    for name, row in published["rows"].items():
        print(f"| GPT-4, {name.replace('_', ' ')}, published | {percent(row['mean'])} (mean) | | {row['any']} % | | | |")
    for name, share in published["paper"].items():
        print(f"| GPT-4, {name.replace('_', ' ')}, in the paper | | | {percent(share)} | | | |")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
