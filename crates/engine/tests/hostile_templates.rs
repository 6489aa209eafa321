//! Checks that untrusted templates end soon and use little memory, with an error of one line that
//! names the template.

use std::alloc::System;

use beamgen_engine::{ChatTemplate, Message, Template};
use cap::Cap;

/// Ends the process if more than 768 MiB are allocated.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 768 << 20);

/// Returns the reason why a chat template is refused, either when compiled or when rendered.
fn refusal(source: &str) -> String {
    let rendered = match ChatTemplate::new(Some(source), []) {
        Ok(template) => template
            .prompt(None, "1 + 1?")
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let start: String = source.chars().take(60).collect();
    let error = rendered.map(|text| text.len()).expect_err(&start);
    assert!(error.starts_with("the chat template"), "{start}: {error}");
    assert!(error.chars().count() < 500, "{start}: {error}");
    assert!(!error.contains('\n'), "{start}: {error}");
    error
}

fn refused(source: &str, words: &str) {
    let error = refusal(source);
    let start: String = source.chars().take(60).collect();
    assert!(error.contains(words), "{start}: {error} lacks {words}");
}

#[test]
fn loops_without_end_run_out_of_fuel() {
    let nested = |n: usize| {
        let (open, close) = ("{% for i in range(60000) %}", "{% endfor %}");
        format!("{}x{}", open.repeat(n), close.repeat(n))
    };
    refused(&nested(2), "runs too long");
    refused(&nested(5), "runs too long");
    refused(
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "",
    );
    // Writing plain text costs one instruction, so a long text must leave fewer instructions.
    let long = "x".repeat(60_000);
    let looped = format!("{{% for i in range(60000) %}}{long}{{% endfor %}}");
    refused(&looped, "runs too long");
    refused(
        &format!("{{% set a %}}{looped}{{% endset %}}"),
        "runs too long",
    );
}

#[test]
fn texts_do_not_grow_without_end() {
    for (source, words) in [
        (
            "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
            "too long a text",
        ),
        (
            "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
            "too long a text",
        ),
        (
            "{% set n = namespace(s='ab') %}{% for i in range(99) %}\
             {% set t %}{{ n.s }}{{ n.s }}{% endset %}{% set n.s = t %}{% endfor %}",
            "too much text",
        ),
        (
            "{% macro f(x, n) %}{{ f(x ~ x, n + 1) if n < 99 else x }}{% endmacro %}{{ f('ab', 0) }}",
            "too long a text",
        ),
        (
            "{% set n = namespace(s='a') %}{% for i in range(9) %}\
             {% set n.s = n.s|replace('a', 'aaaaaaaaaa') %}{% endfor %}",
            "too long a text",
        ),
        (
            "{% set n = 100000 %}{% set s = 'a' * n %}{{ s|replace('a', s) }}",
            "too long a text",
        ),
        (
            "{% set n = 100000 %}{% set s = 'a' * n %}{{ s.replace('', s) }}",
            "too long a text",
        ),
        (
            "{% set n = 500000 %}{% set s = 'a' * n %}{% set l = [s, s, s] * 20000 %}{{ l }}",
            "too long a text",
        ),
        (
            "{% set n = 500000 %}{% set s = 'a' * n %}{% set l = [s, s, s] * 20000 %}{{ l|pprint }}",
            "too long a text",
        ),
        (
            "{% set n = 500000 %}{% set s = 'a' * n %}{{ '{0}{0}{0}{0}'.format(s) }}",
            "too long a text",
        ),
        (
            "{% set n = 500000 %}{% set s = 'a' * n %}\
             {% for i in range(1000) %}{{ s }}{% endfor %}",
            "too much text",
        ),
        ("{{ '%1000000000d'|format(5) }}", "too long a text"),
        ("{{ '%*d'|format(1000000000, 5) }}", "too long a text"),
        ("{{ '{:1000000000}'.format(5) }}", "too long a text"),
        (
            "{{ messages[0].content|indent(1000000000) }}",
            "too long a text",
        ),
        (
            "{{ messages|tojson(indent=65535) ~ messages|tojson(indent=65535) * 9 }}",
            "too long a text",
        ),
        (
            "{% set n = namespace(l=[1]) %}{% for i in range(20) %}{% set n.l = [n.l] %}{% endfor %}\
             {{ n.l|tojson(indent=65535) }}",
            "too long a text",
        ),
        (
            "{{ raise_exception('x' * 100000000) }}",
            "repeats a text too often",
        ),
        ("{{ ('a' * 9999) * 9999 }}", "repeats a text too often"),
        ("{{ 'a' * 2 ** 26 }}", "repeats a text too often"),
        (
            "{% set n = 100000000 %}{{ raise_exception('x' * n) }}",
            "too long a text",
        ),
    ] {
        refused(source, words);
    }
    let message = refusal("{% set n = 100000 %}{{ raise_exception('long\n' * n) }}");
    assert!(message.ends_with('…'), "{message}");
}

#[test]
fn lists_do_not_grow_without_end() {
    for source in [
        "{{ [1] * 100000000 }}",
        "{% set n = 100000000 %}{{ ([1] * n)|length }}",
        "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}",
        "{{ [1]|batch(1000000000, 0)|list }}",
        "{{ [1]|slice(1000000000)|list }}",
        "{% set n = 500000 %}{% set s = 'a' * n %}{{ s|list|length }}",
        "{% set n = 500000 %}{% set s = 'a' * n %}{{ s.split('a')|length }}",
    ] {
        refused(source, "");
    }
    let spread = format!("{{{{ range({}1) }}}}", "*messages, ".repeat(100));
    refused(&spread, "too many lists");
}

#[test]
fn values_do_not_nest_without_end() {
    for (source, words) in [
        (
            "{% set n = namespace(l=[]) %}{% for i in range(60000) %}{% set n.l = [n.l] %}{% endfor %}",
            "deep",
        ),
        (
            "{% set n = namespace(l=[]) %}{% for i in range(60000) %}{% set n.l = {'a': n.l} %}{% endfor %}",
            "deep",
        ),
        (
            "{% set n = namespace(l=[1]) %}{% for i in range(60000) %}{% set n.l = n.l|batch(2) %}{% endfor %}",
            "deep",
        ),
        (
            "{% set n = namespace(l=[1]) %}{% for i in range(60000) %}{% set n.l = dict(a=n.l) %}{% endfor %}",
            "deep",
        ),
        // A namespace contains itself.
        ("{% set n = namespace() %}{% set n.n = n %}{{ n }}", "deep"),
        (
            "{% set n = namespace() %}{% set n.n = n %}{{ n|tojson }}",
            "deep",
        ),
        (
            "{% set n = namespace() %}{% set n.n = [n] %}{{ n|string }}",
            "deep",
        ),
        (
            "{% set n = namespace() %}{% set n.n = n %}{{ [n] }}",
            "deep",
        ),
        // Namespaces are nested in each other.
        (
            "{% set n = namespace(x=1) %}{% for i in range(60000) %}\
             {% set m = namespace() %}{% set m.x = n.x %}{% set n.x = m %}{% endfor %}",
            "namespaces",
        ),
        // Each list contains the previous list twice.
        (
            "{% set n = namespace(l=[1]) %}{% for i in range(30) %}{% set n.l = [n.l, n.l] %}{% endfor %}",
            "too much text",
        ),
    ] {
        refused(source, words);
    }
    // The most namespaces are nested, each inside many lists, then compared and dropped.
    let chain = "{% set n = namespace(x=1) %}{% for i in range(500) %}{% set m = namespace() %}\
        {% set m.x = n.x %}{% set n.x = [[[[[[[[[[[[[[[[[[[[m]]]]]]]]]]]]]]]]]]]] %}{% endfor %}\
        {{ 'same' if n.x == n.x }}";
    assert!(refusal(chain).contains("deep"));
    let chain = chain.replace("{% set m.x = n.x %}", "").replace(
        "{% endfor %}",
        "{% if loop.index > 1 %}{% set p.x = n.x %}{% endif %}{% set p = m %}{% endfor %}",
    );
    ChatTemplate::new(Some(&chain), [])
        .unwrap()
        .prompt(None, "")
        .ok();
}

#[test]
fn long_and_deep_sources_are_refused() {
    refused(&"{%".repeat(2_000_000), "bytes");
    refused(&"{%".repeat(60_000), "");
    refused(&format!("{}%}}", "{%".repeat(60_000)), "");
    refused(&"x".repeat(1 << 20), "bytes");
    for n in [3_000, 60_000] {
        let words = if n > 4096 { "tokens" } else { "" };
        let long = |source: String| {
            let source = source.replace("X", "messages");
            if n > 4096 {
                let source = source.chars().take(120_000).collect::<String>() + "}}";
                refused(&source, words);
            } else if let Ok(template) = ChatTemplate::new(Some(&source), []) {
                // The stack must suffice, so only a crash would fail here.
                template.prompt(None, "x").ok();
            }
        };
        long(format!("{{{{ 1{} }}}}", "+1".repeat(n)));
        long(format!("{{{{ X{} }}}}", "+1".repeat(n)));
        long(format!("{{{{ X{} }}}}", ".b".repeat(n)));
        long(format!("{{{{ X{} }}}}", "|upper".repeat(n)));
        long(format!("{{{{ X{} }}}}", "~1".repeat(n)));
        long(format!("{{{{ {}X }}}}", "not ".repeat(n)));
        long(format!("{{{{ {}1 }}}}", "-".repeat(n)));
        long(format!("{{{{ {}1{} }}}}", "(".repeat(n), ")".repeat(n)));
        long(format!("{{{{ {}1{} }}}}", "[".repeat(n), "]".repeat(n)));
        long(format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(n)));
    }
    let elifs = format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(5_000));
    refused(&elifs, "elif");
    let elifs = format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(900));
    ChatTemplate::new(Some(&elifs), []).unwrap();
    let nested = format!(
        "{}{}",
        "{% if 1 %}".repeat(5_000),
        "{% endif %}".repeat(5_000)
    );
    refused(&nested, "recursion");
}

#[test]
fn there_is_no_other_template_to_load() {
    for source in [
        "{% include 'template' %}",
        "{% import 'template' as t %}",
        "{% extends 'template' %}",
    ] {
        refused(source, "cannot load another one");
    }
}

#[test]
fn methods_that_would_never_end() {
    let template = ChatTemplate::new(Some("{{ 'abc'.count('') }}{{ 'abcb'.count('b') }}"), []);
    assert_eq!(template.unwrap().prompt(None, "").unwrap(), "42");
}

#[test]
fn limits_do_not_touch_what_is_usual() {
    let long = "A long question. ".repeat(200_000);
    let source = "{%- set ns = namespace(text='') -%}\
        {%- for message in messages -%}\
        {%- set ns.text = ns.text + '<|' ~ message.role ~ '|>' + message['content'] | trim + '\n' -%}\
        {%- endfor -%}{{ ns.text }}{{ messages[1:] | length }}{{ ['a'] * 3 }}{{ 'ab' * 2 }}\
        {{ messages[::-1][0].role }}{{ 'ab'[::-1] }}{{ 'user' in messages[0].role }}{{ {'a': [1]} }}";
    let template = ChatTemplate::new(Some(source), []).unwrap();
    let text = template.prompt(Some("s"), &long).unwrap();
    let expected = format!("<|system|>s\n<|user|>{}\n1['a', 'a', 'a']abab", long.trim());
    assert_eq!(text, expected + "userbaFalse{'a': [1]}");
    let messages: Vec<_> = (0..1000).map(|_| Message::user("again")).collect();
    let text = template.render(&messages, beamgen_engine::Ending::Closed);
    assert!(text.unwrap().starts_with("<|user|>again\n<|user|>"));
}

#[test]
fn templates_of_formats_have_the_same_limits() {
    let render = |source: &str| {
        let template = Template::strict("the template", source)?;
        template.render(minijinja::context! { step => "x" }, 1)
    };
    assert_eq!(render("{{ step }}\n").unwrap(), "x\n");
    for source in [
        "{% for i in range(60000) %}{% for i in range(60000) %}{% endfor %}{% endfor %}",
        "{{ '%1000000000d'|format(5) }}",
        "{{ nothing }}",
        "{{ nothing ~ step }}",
        "{% include 'template' %}",
    ] {
        let error = render(source).unwrap_err();
        let at_fault = source.contains("range") || source.contains("format");
        assert_eq!(error.exceeds_limits, at_fault, "{source}");
        let error = error.to_string();
        assert!(error.starts_with("the template, line 1: "), "{error}");
    }
}
