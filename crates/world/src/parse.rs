//! Reading a problem of the world back from its text.

use super::{Fact, ITEMS, NAMES, Relation, WorldProblem};

/// Parses a problem of this world; `None` if the text has another form.
pub fn parse(text: &str) -> Option<WorldProblem> {
    let mut item = None;
    let mut facts: Vec<Fact> = Vec::new();
    let mut asked = None;
    for sentence in text.split_inclusive(['.', '?']) {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let index = |name| fact_about(&facts, name);
        let last = words.last()?.trim_end_matches(['.', '?']);
        let words: Vec<&str> = words[..words.len() - 1]
            .iter()
            .copied()
            .chain([last])
            .collect();
        if let ["How", "many", what, "does", who, "have"] = words[..] {
            same_item(what, &mut item)?;
            asked = Some(index(who)?);
            continue;
        }
        let [who, "has", rest @ ..] = &words[..] else {
            return None;
        };
        let person = NAMES.iter().position(|n| n == who)?;
        let (what, relation) = match *rest {
            [n, what] => (what, Relation::Given(n.parse().ok()?)),
            [c, "more", what, "than", p] => (what, Relation::More(c.parse().ok()?, index(p)?)),
            [c, "fewer", what, "than", p] => (what, Relation::Fewer(c.parse().ok()?, index(p)?)),
            [c, "times", "as", "many", what, "as", p] => {
                (what, Relation::Times(c.parse().ok()?, index(p)?))
            }
            ["half", "as", "many", what, "as", p] => (what, Relation::Half(index(p)?)),
            ["as", "many", what, "as", p, "and", q, "together"] => {
                (what, Relation::Together(index(p)?, index(q)?))
            }
            _ => return None,
        };
        same_item(what, &mut item)?;
        facts.push(Fact { person, relation });
    }
    // The question has to be about the last person.
    (asked? + 1 == facts.len()).then_some(())?;
    // `new` also checks the numbers' range.
    WorldProblem::new(item?, facts)
}

/// Returns the index of the fact about the person called `name`.
fn fact_about(facts: &[Fact], name: &str) -> Option<usize> {
    let person = NAMES.iter().position(|n| *n == name)?;
    facts.iter().position(|f| f.person == person)
}

/// Sets `item` to the index of the thing called `name`. `None` if the name is unknown, or if `item`
/// is already set to another thing.
fn same_item(name: &str, item: &mut Option<usize>) -> Option<()> {
    let i = ITEMS.iter().position(|x| *x == name)?;
    (*item.get_or_insert(i) == i).then_some(())
}
