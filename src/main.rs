//! The command line: reads what was typed, sets up the log, and calls the library.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use regent::command_line::{Command, CommandLine, LogFormat, RegionCommand, TokenCommand};
use regent::commands::{self, Checked, Done};
use regent::providers::simulated::engine::settings::EngineSettings;
use regent::providers::simulated::server::{self, ServerSettings};
use regent::serve::serve;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let line = CommandLine::parse();
    match run(line).await {
        Ok(code) => code,
        Err(error) => {
            let mut text = format!("regent: {error}");
            let mut cause = error.source();
            while let Some(inner) = cause {
                text.push_str(": ");
                text.push_str(&inner.to_string());
                cause = inner.source();
            }
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

async fn run(line: CommandLine) -> Result<ExitCode, Box<dyn Error>> {
    set_up_log(&line.log, line.log_format)?;
    match line.command {
        Command::Serve(arguments) => serve(arguments).await?,
        Command::SimulatedCloud(arguments) => {
            let call_delay = Duration::from_millis(arguments.call_delay_ms);
            let boot_delay = Duration::from_millis(arguments.boot_delay_ms);
            let engine = EngineSettings { boot_delay, ..EngineSettings::default() };
            let settings = ServerSettings { seed: arguments.seed, call_delay, engine };
            server::run(arguments.listen, &arguments.file, settings).await?;
        }
        Command::Token(TokenCommand::New(arguments)) => say(&commands::new_token(&arguments).await?)?,
        Command::Region(RegionCommand::Check(arguments)) => return tell(&commands::region_check(&arguments).await?),
        Command::Orphans(arguments) => say(&commands::orphans(&arguments).await?)?,
        Command::Backup(arguments) => say(&commands::backup(&arguments)?)?,
        Command::Restore(arguments) => say(&commands::restore(&arguments)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The log goes to standard error, so that what a command answers can be piped on.
fn set_up_log(directives: &str, format: LogFormat) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_new(directives)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let log = log.with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// The report beside, and the region alone on standard output. Without one the command has failed.
fn tell(checked: &Checked) -> Result<ExitCode, Box<dyn Error>> {
    eprintln!("{}", checked.remark);
    let Some(region) = &checked.answer else { return Ok(ExitCode::FAILURE) };
    write!(std::io::stdout(), "{region}")?;
    Ok(ExitCode::SUCCESS)
}

/// The answer alone on standard output; the remark beside it.
fn say(done: &Done) -> Result<(), Box<dyn Error>> {
    if !done.answer.is_empty() {
        writeln!(std::io::stdout(), "{}", done.answer)?;
    }
    eprintln!("{}", done.remark);
    Ok(())
}
