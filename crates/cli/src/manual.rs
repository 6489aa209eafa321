//! What is generated from the definition of commands and flags: completions for shells, and manual
//! pages.

use std::io::{self, Write};
use std::path::Path;

use crate::args::{self, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::report::write::{create_folder, write_file};

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
        create_folder(folder)?;
        let mut all = args::definition().disable_help_subcommand(true);
        all.build();
        return pages(&all, folder);
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

/// Writes the page of a command and those of the commands below it.
fn pages(command: &clap::Command, folder: &Path) -> Result<(), Failure> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    shown.into_iter().try_for_each(|one| pages(one, folder))?;
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    write_file(&folder.join(man.get_filename()), &page)
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}
