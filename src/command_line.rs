//! What can be typed, and the environment variable that stands for each option.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::actors::CREATION_TRIES_MAX_DEFAULT;
use crate::api::CACHE_MAX_AGE_S_DEFAULT;
use crate::api::cors::MAX_AGE_S_DEFAULT;
use crate::api::rate::{BURST_DEFAULT, RATE_DEFAULT};
use crate::api::v1::deprecation::Availability;
use crate::model::ids::{OrganizationId, RegionId};
use crate::model::token::Role;
use crate::providers::image_probe::SIZE_LIMIT_GIB_DEFAULT;

/// Governs cloud regions: takes desired infrastructure over REST and makes it real.
#[derive(Debug, Parser)]
#[command(name = "regent", version, max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
    /// How log lines are written
    #[arg(long, global = true, env = "REGENT_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged, as directives such as `info,regent::api=debug`
    #[arg(long, global = true, env = "REGENT_LOG", default_value = "info,ractor=warn", value_name = "DIRECTIVES")]
    pub log: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the control plane
    Serve(ServeArguments),
    /// Run a simulated cloud in a process of its own, for trying out what happens when one side fails
    SimulatedCloud(SimulatedCloudArguments),
    /// Make tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Look at clouds that are to be regions
    #[command(subcommand)]
    Region(RegionCommand),
    /// List what clouds hold of ours that no record owns, as a running server sees it
    Orphans(OrphansArguments),
    /// Copy the data into one file, also while a server is using it
    Backup(BackupArguments),
    /// Make a data folder from a backup
    Restore(RestoreArguments),
}

#[derive(Clone, Debug, Args)]
pub struct DataDirectory {
    /// Where everything is kept
    #[arg(long, env = "REGENT_DATA_DIR", default_value = "regent-data", value_name = "DIR")]
    pub data_dir: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub struct ServeArguments {
    /// Where clients are answered
    #[arg(long, env = "REGENT_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Where operators are answered: the running tree, health, metrics
    #[arg(long, env = "REGENT_ADMIN_LISTEN", default_value = "127.0.0.1:8081", value_name = "ADDRESS")]
    pub admin_listen: SocketAddr,
    /// Where everything is kept; made at the first start
    #[arg(long, env = "REGENT_DATA_DIR", default_value = "regent-data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Which regions there are, as TOML; read again at SIGHUP. Without it, the first start makes a simulated one
    #[arg(long, env = "REGENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The certificate chain of both listeners, as PEM; read again when it changes
    #[arg(long, env = "REGENT_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key that goes with it
    #[arg(long, env = "REGENT_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Listen without TLS on addresses that other machines can reach
    #[arg(long, env = "REGENT_INSECURE_LISTEN")]
    pub insecure_listen: bool,
    /// Which pages may read answers in a browser; may be repeated [default: any]
    #[arg(long, env = "REGENT_CORS_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub cors_allow_origin: Vec<String>,
    /// How long a browser may keep the answer to a preflight, in seconds
    #[arg(long = "cors-max-age", env = "REGENT_CORS_MAX_AGE", default_value_t = MAX_AGE_S_DEFAULT, value_name = "SECONDS")]
    pub cors_max_age_s: u32,
    /// How long clients may keep what a cloud rarely changes, in seconds
    #[arg(long = "cache-max-age", env = "REGENT_CACHE_MAX_AGE", default_value_t = CACHE_MAX_AGE_S_DEFAULT, value_name = "SECONDS")]
    pub cache_max_age_s: u32,
    /// The largest image that may be imported, in GiB
    #[arg(long = "image-size-limit", env = "REGENT_IMAGE_SIZE_LIMIT", default_value_t = SIZE_LIMIT_GIB_DEFAULT, value_name = "GIB")]
    pub image_size_limit_gib: u32,
    /// Whether the first version of the region service is answered: all of it, what changes nothing, or only what has no
    /// successor
    #[arg(long, env = "REGENT_V1", value_enum, default_value_t = Availability::On)]
    pub v1: Availability,
    /// Let whoever has the permission read, over the first version, what principals get into their clouds with
    #[arg(long, env = "REGENT_V1_IDENTITY_SECRETS")]
    pub v1_identity_secrets: bool,
    /// How many requests an organization may send each second; 0 for any number
    #[arg(long, env = "REGENT_TENANT_RATE", default_value_t = RATE_DEFAULT, value_name = "REQUESTS")]
    pub tenant_rate: u32,
    /// How many it may send at once
    #[arg(long, env = "REGENT_TENANT_BURST", default_value_t = BURST_DEFAULT, value_name = "REQUESTS")]
    pub tenant_burst: u32,
    /// How often a cloud may fail to start a server before Regent gives up on it
    #[arg(long, env = "REGENT_PROVIDER_CREATE_MAX_ATTEMPTS", default_value_t = CREATION_TRIES_MAX_DEFAULT, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub provider_create_max_attempts: u32,
}

#[derive(Debug, Args)]
pub struct SimulatedCloudArguments {
    /// Where regions reach it, as `endpoint` in their settings
    #[arg(long, env = "REGENT_SIMULATED_CLOUD_LISTEN", default_value = "127.0.0.1:6090", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Where it keeps what it holds
    #[arg(long, env = "REGENT_SIMULATED_CLOUD_FILE", value_name = "FILE")]
    pub file: PathBuf,
    /// What its ids are drawn from, when the file is new
    #[arg(long, env = "REGENT_SIMULATED_CLOUD_SEED", default_value_t = 1)]
    pub seed: u64,
    /// How long every call takes, in milliseconds
    #[arg(
        long = "call-delay",
        env = "REGENT_SIMULATED_CLOUD_CALL_DELAY",
        default_value_t = 0,
        value_name = "MILLISECONDS"
    )]
    pub call_delay_ms: u64,
    /// How long a server takes to boot, in milliseconds
    #[arg(
        long = "boot-delay",
        env = "REGENT_SIMULATED_CLOUD_BOOT_DELAY",
        default_value_t = 2000,
        value_name = "MILLISECONDS"
    )]
    pub boot_delay_ms: u64,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it, once: a platform role's, a user's of an organization, or another service's
    New(NewTokenArguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlatformRole {
    PlatformAdministrator,
    PlatformReader,
}

impl PlatformRole {
    #[must_use]
    pub const fn role(self) -> Role {
        match self {
            Self::PlatformAdministrator => Role::PlatformAdministrator,
            Self::PlatformReader => Role::PlatformReader,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceRole {
    RegionService,
    KubernetesService,
    ComputeService,
    StorageService,
}

impl ServiceRole {
    #[must_use]
    pub const fn role(self) -> Role {
        match self {
            Self::RegionService => Role::RegionService,
            Self::KubernetesService => Role::KubernetesService,
            Self::ComputeService => Role::ComputeService,
            Self::StorageService => Role::StorageService,
        }
    }
}

#[derive(Debug, Args)]
pub struct NewTokenArguments {
    #[command(flatten)]
    pub data: DataDirectory,
    /// What it is called in `createdBy` and in the audit log [default: operator, or the service's role]
    #[arg(long, env = "REGENT_TOKEN_SUBJECT", conflicts_with = "user")]
    pub subject: Option<String>,
    /// What it may do, everywhere
    #[arg(long, env = "REGENT_TOKEN_ROLE", value_enum, default_value_t = PlatformRole::PlatformAdministrator)]
    pub role: PlatformRole,
    /// Make it for this user of an organization, by the user's subject
    #[arg(long, env = "REGENT_TOKEN_USER", value_name = "SUBJECT", requires = "organization")]
    pub user: Option<String>,
    /// The organization of the user
    #[arg(long, env = "REGENT_TOKEN_ORGANIZATION", value_name = "ID", requires = "user")]
    pub organization: Option<OrganizationId>,
    /// Make it for another service, which may speak for its users
    #[arg(long, env = "REGENT_TOKEN_SERVICE", value_enum, conflicts_with = "user")]
    pub service: Option<ServiceRole>,
    /// How many days it is good for [default: until it is revoked]
    #[arg(long, env = "REGENT_TOKEN_DAYS", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub enum RegionCommand {
    /// Ask an OpenStack cloud whether it can be a region, what is missing, and print the region to configure
    Check(RegionCheckArguments),
}

#[derive(Debug, Args)]
pub struct RegionCheckArguments {
    /// Which entry of the clouds.yaml
    #[arg(long, env = "REGENT_REGION_CHECK_CLOUD", value_name = "NAME")]
    pub cloud: String,
    /// The clouds.yaml [default: OS_CLIENT_CONFIG_FILE, ./clouds.yaml, ~/.config/openstack/clouds.yaml or
    /// /etc/openstack/clouds.yaml]
    #[arg(long, env = "REGENT_REGION_CHECK_CLOUDS_FILE", value_name = "FILE")]
    pub clouds_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct OrphansArguments {
    #[command(flatten)]
    pub data: DataDirectory,
    /// Only those of this region
    #[arg(long, env = "REGENT_ORPHANS_REGION", value_name = "ID")]
    pub region: Option<RegionId>,
    /// Where the server answers operators [default: as the data folder says]
    #[arg(long, env = "REGENT_ADMIN_URL", value_name = "URL")]
    pub admin_url: Option<String>,
    /// The token to ask with [default: the data folder's]
    #[arg(long, env = "REGENT_ADMIN_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}

#[derive(Debug, Args)]
pub struct BackupArguments {
    #[command(flatten)]
    pub data: DataDirectory,
    /// The file to write; it must not exist
    #[arg(long, env = "REGENT_BACKUP_TO", value_name = "FILE")]
    pub to: PathBuf,
    /// Also copy the envelope key, without which sealed secrets stay sealed; keep it apart from the backup
    #[arg(long, env = "REGENT_BACKUP_KEY_TO", value_name = "FILE")]
    pub key_to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RestoreArguments {
    #[command(flatten)]
    pub data: DataDirectory,
    /// The backup to read
    #[arg(long, env = "REGENT_RESTORE_FROM", value_name = "FILE")]
    pub from: PathBuf,
    /// The envelope key that was in use when the backup was made
    #[arg(long, env = "REGENT_RESTORE_KEY_FROM", value_name = "FILE")]
    pub key_from: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_option_has_a_variable() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let described = argument.get_help().is_some();
                let named = argument.get_env().is_some_and(|name| name.to_string_lossy().starts_with("REGENT_"));
                assert!(described, "{} --{id} has no help", command.get_name());
                assert!(named || ["help", "version"].contains(&id), "{} --{id} has no variable", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        CommandLine::command().debug_assert();
        check(&CommandLine::command());
    }

    #[test]
    fn a_token_for_a_user_names_an_organization_and_is_for_nobody_else() {
        let parse = |arguments: &[&str]| CommandLine::try_parse_from([&["regent", "token", "new"], arguments].concat());
        let organization = "22222222-2222-4222-8222-222222222222";
        assert!(parse(&["--user", "alice", "--organization", organization]).is_ok());
        assert!(parse(&["--service", "compute-service"]).is_ok() && parse(&["--role", "platform-reader"]).is_ok());
        for bad in [
            &["--user", "alice"][..],
            &["--organization", organization],
            &["--user", "alice", "--organization", organization, "--service", "compute-service"],
            &["--user", "alice", "--organization", "x"],
            &["--service", "platform-administrator"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let parsed = CommandLine::try_parse_from(["regent", "serve", "--tls-cert", "c.pem"]);
        assert!(parsed.expect_err("the key is missing").to_string().contains("--tls-key"));
    }
}
