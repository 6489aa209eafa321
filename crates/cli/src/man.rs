//! `beamgen man`: writes manual pages, made from the definition of the flags.

use std::path::Path;

use crate::args::{self, ManArgs};
use crate::failure::Failure;
use crate::output;
use crate::write::{create_folder, write_file};

pub(crate) fn main(args: &ManArgs) -> Result<(), Failure> {
    if let Some(folder) = &args.out {
        create_folder(folder)?;
        // clap's command `help` contains a copy of every command, each of which would get a page.
        let mut all = args::definition().disable_help_subcommand(true);
        all.build();
        return pages(&all, folder);
    }
    let mut all = args::definition();
    all.build();
    let command = match args.command.as_deref() {
        None => &all,
        Some(name) => all.find_subcommand(name).ok_or_else(|| {
            let names: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
            let names = names.join(", ");
            Failure::Input(format!("no command {name}: one of {names}"))
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(output::bytes(&page)?)
}

/// Writes a page for the command and for each of its subcommands.
fn pages(command: &clap::Command, folder: &Path) -> Result<(), Failure> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    shown.into_iter().try_for_each(|one| pages(one, folder))?;
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    write_file(&folder.join(man.get_filename()), &page)
}
