"""Problem files and fine-tuning data of the real case out of GSM8K: python3 prepare.py DATA OUT [MAX_STEPS]

DATA holds gsm8k_train.jsonl and gsm8k_test.jsonl (question, answer), and mawps.jsonl (input, target). OUT gets:
  sft.jsonl       problem and solution, line by line, calculator annotations <<...>> taken out; with MAX_STEPS, only solutions of
                  at most so many lines before the answer's
  label.jsonl     the same problems with their answers, for rollouts
  dev.jsonl       the last 300 of the training part, which nothing is trained on: temperature and settings are chosen here
  test.jsonl      all 1,319
  mawps.jsonl     MAWPS, easier problems that nothing is trained on
"""

import json
import pathlib
import re
import sys

DEV = 300


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def objects(text):
    """JSON objects one behind the other; a few lines of MAWPS have two."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found, at = decoder.raw_decode(text, at)
        yield found


def solution(answer):
    """Lines of a solution; the last is `#### N`."""
    plain = re.sub(r"<<[^<>]*>>", "", answer)
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in plain.splitlines()]
    return "\n".join(line for line in lines if line)


def final(answer):
    return answer.rsplit("####", 1)[1].strip().replace(",", "")


def write(path, items):
    with open(path, "w", encoding="utf-8") as out:
        for item in items:
            out.write(json.dumps(item, ensure_ascii=False) + "\n")
    print(f"{path}: {len(items)}")


def main(data, out, max_steps="inf"):
    data, out = pathlib.Path(data), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    train, test = rows(data / "gsm8k_train.jsonl"), rows(data / "gsm8k_test.jsonl")

    def problem(name, i, row):
        return {"id": f"{name}-{i}", "problem": row["question"].strip(), "answer": final(row["answer"])}

    dev = train[-DEV:]
    learn = [(i, r) for i, r in enumerate(train[:-DEV]) if solution(r["answer"]).count("\n") <= float(max_steps)]
    write(out / "sft.jsonl", [{"problem": r["question"].strip(), "solution": solution(r["answer"])} for _, r in learn])
    write(out / "label.jsonl", [problem("train", i, r) for i, r in learn])
    write(out / "dev.jsonl", [problem("train", len(train) - DEV + i, r) for i, r in enumerate(dev)])
    write(out / "test.jsonl", [problem("test", i, r) for i, r in enumerate(test)])
    mawps = objects((data / "mawps.jsonl").read_text(encoding="utf-8"))
    write(out / "mawps.jsonl", [
        {"id": f"mawps-{i}", "problem": r["input"].strip(), "answer": str(r["target"])} for i, r in enumerate(mawps)
    ])


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
