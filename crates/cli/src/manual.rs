//! What is generated from the definition of commands and flags: completions for shells, and manual
//! pages.

use std::io::{self, Write};

use crate::args::{self, CompletionsArgs, ManArgs};
use crate::failure::Failure;

/// `beamgen completions`.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    // Into memory first: the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "beamgen", &mut script);
    print(&script)
}

/// `beamgen man`: one page for each command.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    if let Some(folder) = &args.out {
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(args::definition(), folder));
        return written.map_err(|error| Failure::Input(format!("{}: {error}", folder.display())));
    }
    let mut all = args::definition();
    all.build();
    let command = match args.command.as_deref() {
        None => &all,
        Some(name) => all.find_subcommand(name).ok_or_else(|| {
            let names: Vec<&str> = all.get_subcommands().map(|one| one.get_name()).collect();
            let names = names.join(", ");
            Failure::Input(format!("no command {name}: one of {names}"))
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    print(&page)
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}
