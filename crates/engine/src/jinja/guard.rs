//! Wraps operators, filters, tests and functions so that each charges its work to the limits of the
//! rendering.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr, Value, ValueKind};
use minijinja::{
    Environment, Error, ErrorKind, State, UndefinedBehavior, context, filters, functions, tests,
};
use minijinja_contrib::pycompat;

use super::limits::{
    Text, admit, is_nested, read, refusal, spend, spend_items, spend_namespace, spend_string,
};
use super::print::{print, printed};

/// Creates an environment whose templates cannot exceed the limits of a rendering.
pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_debug(false);
    // `debug` shows the state of the surrounding program, and Python's Jinja does not have it.
    environment.remove_global("debug");
    environment.set_unknown_method_callback(method);
    environment.set_formatter(|out, _, value| {
        let written = match value.as_str() {
            Some(text) => {
                spend(text.len())?;
                out.write_str(text)
            }
            None => out.write_str(&printed(value)?),
        };
        written.map_err(Error::from)
    });
    add_operators(&mut environment);
    add_filters(&mut environment);
    add_tests(&mut environment);
    for (name, function) in [
        ("range", Value::from_function(functions::range)),
        ("dict", Value::from_function(functions::dict)),
        ("namespace", Value::from_function(functions::namespace)),
    ] {
        let is_namespace = name == "namespace";
        environment.add_function(name, move |state: &State, args: &[Value]| {
            if is_namespace {
                spend_namespace()?;
            }
            admit(function.call(state, args)?)
        });
    }
    environment
}

/// Adds each operator as a filter, under a name that no template can write.
fn add_operators(environment: &mut Environment<'_>) {
    environment.add_filter("+", add);
    environment.add_filter("*", multiply);
    environment.add_filter("~", |state: &State, a: &Value, b: &Value| {
        defined(state, &[a, b])?;
        let mut text = Text::default();
        print(a, &mut text)?;
        print(b, &mut text)?;
        Ok::<_, Error>(text.into_string())
    });
    environment.add_filter("[:]", slice);
    // The items were charged when they were made. The new list may still be nested too deeply.
    environment.add_filter("[]", |items: &[Value]| admit(Value::from(items.to_vec())));
    environment.add_filter("{}", |pairs: &[Value]| {
        let pairs = pairs.chunks_exact(2);
        admit(
            pairs
                .map(|pair| (pair[0].clone(), pair[1].clone()))
                .collect(),
        )
    });
    add_comparison(environment, "==", |a, b| a == b);
    add_comparison(environment, "!=", |a, b| a != b);
    add_comparison(environment, "<", |a, b| a < b);
    add_comparison(environment, "<=", |a, b| a <= b);
    add_comparison(environment, ">", |a, b| a > b);
    add_comparison(environment, ">=", |a, b| a >= b);
    environment.add_filter("in", |state: &State, a: &Value, b: &Value| {
        defined(state, &[a, b])?;
        read(a)?;
        read(b)?;
        evaluate(state, "a in b", a, b)
    });
}

fn add_comparison(
    environment: &mut Environment<'_>,
    name: &'static str,
    holds: fn(&Value, &Value) -> bool,
) {
    environment.add_filter(name, move |state: &State, a: &Value, b: &Value| {
        defined(state, &[a, b])?;
        // A comparison reads both lists to their ends, and a loop may repeat the comparison.
        read(a)?;
        read(b)?;
        Ok::<_, Error>(holds(a, b))
    });
}

/// Evaluates an operator by `minijinja`, after the operands were charged.
fn evaluate(state: &State, operation: &'static str, a: &Value, b: &Value) -> Result<Value, Error> {
    let operation = state.env().compile_expression(operation)?;
    operation.eval(context! { a, b })
}

/// Refuses undefined operands in a strict environment, like the operators of `minijinja`.
fn defined(state: &State, values: &[&Value]) -> Result<(), Error> {
    let strict = matches!(
        state.env().undefined_behavior(),
        UndefinedBehavior::Strict | UndefinedBehavior::SemiStrict
    );
    if strict && values.iter().any(|value| value.is_undefined()) {
        Err(ErrorKind::UndefinedError.into())
    } else {
        Ok(())
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Copies the items of a list, and charges for them before memory is allocated.
fn items(list: &Value) -> Result<Vec<Value>, Error> {
    spend_items(list.len().unwrap_or(0))?;
    let mut items = Vec::new();
    for item in list.try_iter()? {
        // A list of unknown length may have no end, so each of its items is charged separately.
        if list.len().is_none() {
            spend_items(items.len() + 1)?;
        }
        items.push(item);
    }
    Ok(items)
}

fn add(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        spend_string(a.len() + b.len())?;
        return Ok([a, b].concat().into());
    }
    if is_list(a) && is_list(b) {
        let mut all = items(a)?;
        all.extend(items(b)?);
        spend_items(all.len())?;
        return Ok(all.into());
    }
    evaluate(state, "a + b", a, b)
}

fn multiply(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    for (value, count) in [(a, b), (b, a)] {
        let Some(count) = count.as_usize() else {
            continue;
        };
        if let Some(text) = value.as_str() {
            spend_string(text.len().saturating_mul(count))?;
            return Ok(text.repeat(count).into());
        }
        if is_list(value) {
            let items = items(value)?;
            spend_items(items.len().saturating_mul(count))?;
            let all = std::iter::repeat_n(items, count).flatten();
            return Ok(all.collect::<Vec<_>>().into());
        }
    }
    evaluate(state, "a * b", a, b)
}

/// Returns `value[start:stop:step]`; negative and missing bounds have Python's meaning.
fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |value: &Value| {
        if value.is_none() {
            Ok(None)
        } else {
            i64::try_from(value.clone()).map(Some)
        }
    };
    let (start, stop) = (bound(start)?, bound(stop)?);
    let step = bound(step)?.unwrap_or(1);
    if step == 0 {
        return Err(refusal("slice step cannot be zero"));
    }
    if let Some(text) = value.as_str() {
        spend_string(text.len())?;
        let all: Vec<char> = text.chars().collect();
        let chosen = chosen(all.len(), start, stop, step);
        return Ok(chosen.map(|i| all[i]).collect::<String>().into());
    }
    if value.is_undefined() || value.is_none() {
        return Ok(Vec::<Value>::new().into());
    }
    if !is_list(value) {
        let kind = value.kind();
        return Err(refusal(format!("value of type {kind} cannot be sliced")));
    }
    let all = items(value)?;
    let chosen = chosen(all.len(), start, stop, step);
    Ok(chosen.map(|i| all[i].clone()).collect::<Vec<_>>().into())
}

/// Returns the indices that a Python slice of `len` items selects, in order.
fn chosen(
    len: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> impl Iterator<Item = usize> {
    let len = len as i64;
    // The least and the greatest bound. For a negative step, -1 is the bound before the first item.
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let place = |bound: i64| {
        let from_the_end = if bound < 0 {
            bound.saturating_add(len)
        } else {
            bound
        };
        from_the_end.clamp(low, high)
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let (start, stop) = (start.map_or(first, place), stop.map_or(last, place));
    std::iter::successors(Some(start), move |i| i.checked_add(step))
        .take_while(move |i| if step > 0 { *i < stop } else { *i > stop })
        .map(|i| i as usize)
}

fn add_filters(environment: &mut Environment<'_>) {
    macro_rules! all {
        ($($name:literal $filter:ident),* $(,)?) => {
            [$(($name, Value::from_function(filters::$filter))),*]
        };
    }
    // Filters that expect text. Lists and maps are printed first, like in Python.
    let of_text = all![
        "safe" safe, "escape" escape, "e" escape, "lower" lower, "upper" upper, "title" title,
        "capitalize" capitalize, "lines" lines, "split" split, "int" int, "float" float,
    ];
    for (name, filter) in of_text {
        environment.add_filter(name, move |state: &State, args: &[Value]| {
            call(&filter, state, &with_text(args, 1)?)
        });
    }
    let others = all![
        "length" length, "count" length, "dictsort" dictsort, "items" items, "reverse" reverse,
        "default" default, "d" default, "round" round, "abs" abs, "attr" attr, "first" first,
        "last" last, "min" min, "max" max, "sort" sort, "list" list, "bool" bool, "sum" sum,
        "select" select, "reject" reject, "selectattr" selectattr, "rejectattr" rejectattr,
        "map" map, "groupby" groupby, "unique" unique, "chain" chain, "zip" zip,
    ];
    for (name, filter) in others {
        environment.add_filter(name, move |state: &State, args: &[Value]| {
            call(&filter, state, args)
        });
    }
    // The argument `count` of these filters is the number of items that they make.
    for (name, filter) in all!["batch" batch, "slice" slice] {
        environment.add_filter(name, move |state: &State, args: &[Value]| {
            let count = args.get(1).and_then(Value::as_usize).unwrap_or(0);
            spend_items(count)?;
            call(&filter, state, args)
        });
    }
    let indent = Value::from_function(filters::indent);
    environment.add_filter("indent", move |state: &State, args: &[Value]| {
        let args = with_text(args, 1)?;
        let text = args.first().and_then(Value::as_str).unwrap_or_default();
        let width = args.iter().find_map(Value::as_usize).unwrap_or(4);
        let lines = text.split('\n').count();
        spend_string(width.saturating_mul(lines).saturating_add(text.len()))?;
        call(&indent, state, &args)
    });
    // The filters below can make a text much longer than their input, so the length of the result
    // is computed and charged first.
    let replace = Value::from_function(filters::replace);
    environment.add_filter("replace", move |state: &State, args: &[Value]| {
        let args = with_text(args, 3)?;
        check_replace(&args)?;
        call(&replace, state, &args)
    });
    let format = Value::from_function(filters::format);
    environment.add_filter("format", move |state: &State, args: &[Value]| {
        let args = with_text(args, usize::MAX)?;
        check_format(&args, '%')?;
        call(&format, state, &args)
    });
    environment.add_filter("join", |value: &Value, joiner: Option<&Value>| {
        let joiner = joiner.map(printed).transpose()?.unwrap_or_default();
        join(value, &joiner)
    });
    environment.add_filter("pprint", printed);
    environment.add_filter("string", printed);
}

fn call(filter: &Value, state: &State, args: &[Value]) -> Result<Value, Error> {
    args.iter().try_for_each(read)?;
    admit_made(filter.call(state, args)?)
}

/// Charges for a value that a filter or a method has returned.
fn admit_made(made: Value) -> Result<Value, Error> {
    if made.kind() == ValueKind::Iterable {
        // A lazy value refers to the value from which it was made, so a chain of filters could nest
        // without a limit. Its items are copied instead.
        return admit(Value::from_object(Items(items(&made)?)));
    }
    admit(made)
}

/// Prints those of the first `count` arguments that are lists or maps.
fn with_text(args: &[Value], count: usize) -> Result<Vec<Value>, Error> {
    let args = args.iter().enumerate().map(|(i, value)| {
        if i < count && is_nested(value) && !value.is_kwargs() {
            Ok(printed(value)?.into())
        } else {
            Ok(value.clone())
        }
    });
    args.collect()
}

/// Charges for the result of a replacement. `args` are the text, the pattern and the replacement.
fn check_replace(args: &[Value]) -> Result<(), Error> {
    if let [text, from, to, ..] = args
        && let (Some(text), Some(from)) = (text.as_str(), from.as_str())
    {
        // A replacement that is not a string prints as at most 64 bytes.
        let by = to.as_str().map_or(64, str::len);
        let times = text.matches(from).count();
        spend_string(text.len().saturating_add(times.saturating_mul(by)))?;
    }
    Ok(())
}

/// Charges for the longest possible result of formatting. `args` are the format and the values;
/// fields of the format begin with `mark`.
fn check_format(args: &[Value], mark: char) -> Result<(), Error> {
    let Some((format, values)) = args.split_first() else {
        return Ok(());
    };
    let format = format.as_str().unwrap_or_default();
    let fields = format.matches(mark).count();
    let mut widths = 0usize;
    // Any number in a format may be a width or a precision, so the sum of all is charged.
    for digits in format.split(|c: char| !c.is_ascii_digit()) {
        if !digits.is_empty() {
            widths = widths.saturating_add(digits.parse().unwrap_or(usize::MAX));
        }
    }
    let mut longest = 0;
    for value in values {
        if format.contains('*')
            && let Some(width) = value.as_usize()
        {
            widths = widths.saturating_add(width);
        }
        longest = longest.max(printed(value)?.len());
    }
    let filled = fields.saturating_mul(longest.max(64));
    spend_string(format.len().saturating_add(filled).saturating_add(widths))
}

fn join(list: &Value, joiner: &str) -> Result<String, Error> {
    let mut text = Text::default();
    if list.is_undefined() || list.is_none() {
        return Ok(String::new());
    }
    if let Some(list) = list.as_str() {
        for (i, c) in list.chars().enumerate() {
            text.push_str(if i > 0 { joiner } else { "" })?;
            text.push(c)?;
        }
        return Ok(text.into_string());
    }
    for (i, item) in list.try_iter()?.enumerate() {
        text.push_str(if i > 0 { joiner } else { "" })?;
        print(&item, &mut text)?;
    }
    Ok(text.into_string())
}

/// Calls a method of Python's `str`, `list` or `dict`.
fn method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    read(value)?;
    args.iter().try_for_each(read)?;
    if let Some(text) = value.as_str() {
        match (name, args) {
            ("strip", []) => return Ok(super::strip(text).into()),
            ("lstrip", []) => return Ok(text.trim_start_matches(super::is_space).into()),
            ("rstrip", []) => return Ok(super::rstrip(text).into()),
            ("join", [list]) => return Ok(join(list, text)?.into()),
            // `pycompat` would not return for an empty pattern.
            ("count", [what]) if what.as_str() == Some("") => {
                return Ok((text.chars().count() + 1).into());
            }
            _ => {}
        }
        let own = [std::slice::from_ref(value), args].concat();
        match name {
            "replace" => check_replace(&own)?,
            "format" => check_format(&own, '{')?,
            _ => {}
        }
    }
    admit_made(pycompat::unknown_method_callback(state, value, name, args)?)
}

fn add_tests(environment: &mut Environment<'_>) {
    macro_rules! all {
        ($($name:literal $test:ident),* $(,)?) => {
            [$(($name, Value::from_function(tests::$test))),*]
        };
    }
    // Only tests that read whole values are wrapped. Other tests look at a value's type.
    for (name, test) in all![
        "startingwith" is_startingwith, "endingwith" is_endingwith, "lower" is_lower,
        "upper" is_upper, "eq" is_eq, "equalto" is_eq, "==" is_eq, "ne" is_ne, "!=" is_ne,
        "lt" is_lt, "lessthan" is_lt, "<" is_lt, "le" is_le, "<=" is_le, "gt" is_gt,
        "greaterthan" is_gt, ">" is_gt, "ge" is_ge, ">=" is_ge, "in" is_in,
    ] {
        environment.add_test(name, move |state: &State, args: &[Value]| {
            args.iter().try_for_each(read)?;
            test.call(state, args).map(|value| value.is_true())
        });
    }
}

/// A generator in Python's sense: an iterable value that is not a list.
#[derive(Debug)]
struct Items(Vec<Value>);

impl Object for Items {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_enumerator(|this| Box::new(this.0.iter().cloned()))
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn slices_are_pythons() {
        let all = |start, stop, step| chosen(5, start, stop, step).collect::<Vec<_>>();
        assert_eq!(all(None, None, 1), [0, 1, 2, 3, 4]);
        assert_eq!(all(Some(1), None, 2), [1, 3]);
        assert_eq!(all(None, Some(-1), 1), [0, 1, 2, 3]);
        assert_eq!(all(Some(-2), None, 1), [3, 4]);
        assert_eq!(all(None, None, -1), [4, 3, 2, 1, 0]);
        assert_eq!(all(Some(3), Some(0), -2), [3, 1]);
        assert_eq!(all(Some(-9), Some(9), 1), [0, 1, 2, 3, 4]);
        assert_eq!(all(Some(9), Some(-9), -3), [4, 1]);
        assert_eq!(all(Some(3), Some(1), 1), [0; 0]);
        assert_eq!(all(Some(i64::MIN), Some(i64::MAX), i64::MAX), [0]);
        assert_eq!(chosen(0, None, None, -1).count(), 0);
    }
}
