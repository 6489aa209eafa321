//! `beamgen bench-engine`: measures the speed of one model without a search, in tokens per second.

mod profile;

use std::io::{self, Write};

use beamgen::Config;
use beamgen::models::{ComputeType, WeightType};
use beamgen::program::{DecodeBench, EngineBench, MachineRates, Measured};
use serde_json::{Value, json};
use sysinfo::System;

use crate::args::BenchEngineArgs;
use crate::download;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::peak_memory;
use crate::plan::size;
use crate::printable;
use crate::settings;
use crate::table::{Table, counted};

/// The number of bytes that are read and copied to measure memory bandwidth. The number exceeds
/// what the CPU's caches hold.
const CEILING_MEMORY: usize = 256 << 20;

pub(crate) fn main(args: &BenchEngineArgs) -> Result<(), Failure> {
    for (flag, least) in [
        ("--batch", args.batch.iter().min()),
        ("--prefix", args.prefix.iter().min()),
        ("--new", Some(&args.new)),
        ("--repeat", Some(&args.repeat)),
    ] {
        if least == Some(&0) {
            return refuse(format!("{flag} 0: use at least 1"));
        }
    }
    let mut config = settings::with_flags(Config::default(), &args.engine)?;
    config.models.generator.clone_from(&args.model);
    config.resolve_words();
    // The memory plan reserves logits for n chains, which must be enough for the largest batch.
    config.search.n = args.batch.iter().copied().max().unwrap_or(1);
    config.search.in_flight = 1;
    let longest = args.prefix.iter().max().unwrap_or(&0);
    let longest = longest.saturating_add(args.new);

    let ceilings = config.engine.ceilings(CEILING_MEMORY);
    let rates = ceilings.map_err(beamgen::Error::from)?;
    // Without the reset, the peak memory would include the buffers of the bandwidth measurement.
    forget_peak_rss();
    let dtype = config.models.dtype;
    let builder = download::attach(settings::builder(config)?)?;
    let mut bench = EngineBench::open(builder, longest, args.random)?;
    let rates = Ceilings {
        machine: rates,
        card: bench.copy_rate()?.map(|rate| rate / 1e9),
    };
    let types = Types {
        dtype,
        compute: bench.arithmetic,
    };
    output::notes(bench.notes());
    if args.profile && rates.card.is_some() {
        return refuse("--profile measures the operations of the CPU: use --device cpu".to_owned());
    }
    let mut points = Vec::new();
    for &prefix in &args.prefix {
        for &batch in &args.batch {
            let point = DecodeBench {
                prefix,
                batch,
                new: args.new,
                repeat: args.repeat,
                sample: !args.no_sample,
            };
            if let Some(bytes) = bench.too_much(&point) {
                return refuse(format!(
                    "--batch {batch} with --prefix {prefix} and --new {} needs {} of KV cache, which is more \
                     than --kv-memory allows: use smaller numbers, or raise --kv-memory",
                    args.new,
                    size(bytes as u64)
                ));
            }
            // All measurements are checked before the first one, since the whole run may take
            // hours.
            points.push(point);
        }
    }

    let mut out = io::stdout().lock();
    if !args.json {
        head(&mut out, args, &bench, types, &rates)?;
    }
    let mut table = Table::new(&[
        "prompt",
        "batch",
        "decode tokens/s",
        "p10 to p90",
        "ms a pass",
        "weights GB/s",
        "GFLOP/s",
        "prefill tokens/s",
        "p10 to p90",
        "GFLOP/s",
    ]);
    let (mut most_kv, mut accounts) = (0, Vec::new());
    for point in &points {
        // The flags were checked above, so an error is due to the run, not to the input: exit code
        // 1.
        let measured = bench.measure(point);
        let measured = measured.map_err(|error| Failure::Run(error.into()))?;
        most_kv = measured.kv_bytes.max(most_kv);
        let mut row = row(&bench, types, point, &measured, &rates);
        if args.profile {
            let phases = bench.profile(point);
            let phases = phases.map_err(|error| Failure::Run(error.into()))?;
            let parts = PHASES.into_iter().zip(&phases).zip(profile::passes(point));
            for ((name, phase), passes) in parts {
                let account = profile::Profile::new(phase, passes, &rates.machine);
                if args.json {
                    row[format!("{name}_profile")] = account.json();
                } else {
                    accounts.push((format!("{name}, {}", of(point)), account));
                }
            }
        }
        if args.json {
            output::json_line(&mut out, &row)?;
            out.flush()?;
        } else {
            table.row(cells(&row, types));
        }
    }
    output::notes(bench.notes());
    if !args.json {
        table.write(&mut out)?;
        for (title, account) in &accounts {
            writeln!(out, "\n{title}:")?;
            account.table().write(&mut out)?;
        }
        // The resident memory does not include weights and cache on a CUDA device.
        if let Some(peak) = peak_memory::mib().filter(|_| rates.card.is_none()) {
            let planned = mib(bench.weight_bytes() + most_kv);
            writeln!(
                out,
                "  peak resident memory {peak:.0} MiB, loading included: {:.2} of weights and cache in use ({planned:.0} MiB)",
                peak / planned
            )?;
        }
    }
    Ok(out.flush()?)
}

/// The phases of a measurement.
const PHASES: [&str; 2] = ["prefill", "decode"];

fn of(point: &DecodeBench) -> String {
    format!("prompt {}, batch {}", point.prefix, point.batch)
}

fn head(
    out: &mut dyn Write,
    args: &BenchEngineArgs,
    bench: &EngineBench,
    types: Types,
    rates: &Ceilings,
) -> io::Result<()> {
    let work = if args.no_sample {
        "logits for every row, nothing sampled"
    } else {
        "logits and a sample at temperature 0.8 for every row"
    };
    writeln!(
        out,
        "{} on {}, weights {}, arithmetic {}, {}; {}; {work};\n{} per sequence, median of {}",
        printable::line(&bench.name),
        bench.device(),
        types.dtype,
        types.compute,
        size(bench.weight_bytes() as u64),
        counted(bench.threads(), "thread", "threads"),
        counted(args.new, "new token", "new tokens"),
        counted(args.repeat, "run", "runs"),
    )?;
    writeln!(
        out,
        "this machine: reads {:.1} GB/s, copies {:.1} GB/s, {:.0} GFLOP/s of float32, {:.0} of bfloat16, {:.0} GOP/s \
         of bytes in blocks of 32 ({:.0} without scales)\n",
        rates.machine.read,
        rates.machine.copy,
        rates.machine.floats,
        rates.machine.pairs,
        rates.machine.blocks,
        rates.machine.bytes
    )?;
    match rates.card {
        Some(copy) => writeln!(
            out,
            "the CUDA device copies {copy:.0} GB/s, counting reads and writes\n"
        ),
        None => Ok(()),
    }
}

/// The number types of the measured model.
#[derive(Clone, Copy)]
struct Types {
    dtype: WeightType,
    compute: ComputeType,
}

/// Upper limits of the machine, with which measured rates are compared.
struct Ceilings {
    machine: MachineRates,
    /// Copies within the memory of a CUDA device, in 10^9 bytes a second.
    card: Option<f64>,
}

/// Returns a measurement as JSON. Keys that `llama_batched.py` measures for llama.cpp, too, have
/// the same names.
fn row(
    bench: &EngineBench,
    types: Types,
    point: &DecodeBench,
    measured: &Measured,
    rates: &Ceilings,
) -> Value {
    let (decode, prefill) = (&measured.decode, &measured.prefill);
    let tokens = (point.batch * point.new) as f64;
    let passes = point.new as f64;
    let read = point.prefix as f64;
    json!({
        "tool": "beamgen",
        "model": bench.name,
        "dtype": types.dtype,
        "compute": types.compute,
        "prompt": point.prefix,
        "batch": point.batch,
        "new": point.new,
        "threads": bench.threads(),
        "kv": bench.kv_dtype,
        "sample": if point.sample { "temperature 0.8" } else { "none" },
        // The rate of the fastest run. Keys with a suffix are quantiles of the rate over all runs.
        "decode_tokens_per_s": rounded(tokens / at(decode, 0.0)),
        "decode_tokens_per_s_median": rounded(tokens / at(decode, 0.5)),
        // A low quantile of the rate is a high quantile of the time, so p10 uses the 0.9 quantile
        // of the times.
        "decode_tokens_per_s_p10": rounded(tokens / at(decode, 0.9)),
        "decode_tokens_per_s_p90": rounded(tokens / at(decode, 0.1)),
        // The time of the fastest run, rounded to 10 nanoseconds: a pass of a small model takes
        // microseconds.
        "step_ms": rounded(1e6 * at(decode, 0.0) / passes) / 1e3,
        "step_ms_median": rounded(1e6 * at(decode, 0.5) / passes) / 1e3,
        "prefill_tokens_per_s": rounded(read / at(prefill, 0.0)),
        "prefill_tokens_per_s_median": rounded(read / at(prefill, 0.5)),
        "prefill_tokens_per_s_p10": rounded(read / at(prefill, 0.9)),
        "prefill_tokens_per_s_p90": rounded(read / at(prefill, 0.1)),
        "repeat": point.repeat,
        // Rates of the median run, in 10^9 per second.
        "weights_gb_per_s": rounded(measured.streamed_bytes as f64 * passes / at(decode, 0.5) / 1e9),
        "decode_gflop_per_s": rounded(measured.decode_flops / at(decode, 0.5) / 1e9),
        "prefill_gflop_per_s": rounded(measured.prefill_flops / at(prefill, 0.5) / 1e9),
        // The limits of this machine, which this process measured with the same number of threads.
        "read_gb_per_s": rounded(rates.machine.read),
        "copy_gb_per_s": rounded(rates.machine.copy),
        "fma_gflop_per_s": rounded(rates.machine.floats),
        "bf16_gflop_per_s": rounded(rates.machine.pairs),
        "byte_dot_gop_per_s": rounded(rates.machine.bytes),
        "block_dot_gop_per_s": rounded(rates.machine.blocks),
        "device": bench.device(),
        "device_copy_gb_per_s": rates.card.map(rounded),
        "weights_mib": rounded(mib(bench.weight_bytes())),
        "kv_mib": rounded(mib(measured.kv_bytes)),
        "peak_rss_mib": peak_memory::mib(),
        "loadavg": System::load_average().one,
    })
}

/// Converts a [`row`] to cells of the printed table.
fn cells(row: &Value, types: Types) -> Vec<String> {
    let number = |key: &str| row[key].as_f64().unwrap_or_default();
    let cell = |key: &str, ceiling: Option<f64>| match ceiling {
        Some(ceiling) => format!(
            "{:.1} ({:.0} %)",
            number(key),
            100.0 * number(key) / ceiling
        ),
        None => format!("{:.1}", number(key)),
    };
    // On a CUDA device only the copy rate was measured, so the peak of arithmetic is unknown.
    let (reads, most) = if let Some(copy) = row["device_copy_gb_per_s"].as_f64() {
        (copy, None)
    } else {
        let most = match (types.dtype, types.compute) {
            (WeightType::Int8, _) => "block_dot_gop_per_s",
            (_, compute) if compute.is_bf16() => "bf16_gflop_per_s",
            _ => "fma_gflop_per_s",
        };
        (number("read_gb_per_s"), Some(number(most)))
    };
    let spread = |low, high| format!("{:.1} to {:.1}", number(low), number(high));
    vec![
        row["prompt"].to_string(),
        row["batch"].to_string(),
        cell("decode_tokens_per_s_median", None),
        spread("decode_tokens_per_s_p10", "decode_tokens_per_s_p90"),
        format!("{:.3}", number("step_ms_median")),
        cell("weights_gb_per_s", Some(reads)),
        cell("decode_gflop_per_s", most),
        cell("prefill_tokens_per_s_median", None),
        spread("prefill_tokens_per_s_p10", "prefill_tokens_per_s_p90"),
        cell("prefill_gflop_per_s", most),
    ]
}

/// Returns a quantile of an ascending list: the element nearest to `share` of the way through the
/// list.
fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Rounds to two decimals, since further digits are noise.
fn rounded(number: f64) -> f64 {
    (100.0 * number).round() / 100.0
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Resets the kernel's record of this process's peak memory.
fn forget_peak_rss() {
    // Only Linux has this file. Elsewhere, `peak_memory` reports nothing.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_list() {
        let runs = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(
            [0.0, 0.1, 0.5, 0.9].map(|s| at(&runs, s)),
            [1.0, 1.0, 3.0, 5.0]
        );
        assert_eq!(at(&[7.0], 0.9), 7.0);
    }
}
