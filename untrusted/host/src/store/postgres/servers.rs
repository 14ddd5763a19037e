//! The servers that an address names, one by one: the driver, which tries them in turn, would wait for ever for one that hangs.

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// A configuration for each server of one, in its order. One that names a single server, or whose lists do not fit, is left as it
/// is: what is wrong with it, the driver says.
pub(super) fn each(all: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length == count || length == 0;
    if count < 2 || !fits(hosts.len()) || !fits(addresses.len()) || !fits(ports.len()) && ports.len() != 1 {
        return vec![all.clone()];
    }
    let server = |place: usize| {
        let mut one = shared(all);
        match hosts.get(place) {
            Some(Host::Tcp(name)) => _ = one.host(name),
            Some(Host::Unix(folder)) => _ = one.host_path(folder),
            None => {}
        }
        addresses.get(place).map(|address| one.hostaddr(*address));
        ports.get(place).or(ports.first()).map(|port| one.port(*port));
        one
    };
    (0..count).map(server).collect()
}

/// What is said of all servers alike.
fn shared(all: &Config) -> Config {
    let mut one = Config::new();
    all.get_user().map(|user| one.user(user));
    all.get_password().map(|password| one.password(password));
    all.get_dbname().map(|name| one.dbname(name));
    all.get_options().map(|options| one.options(options));
    all.get_application_name().map(|name| one.application_name(name));
    all.get_connect_timeout().map(|timeout| one.connect_timeout(*timeout));
    all.get_tcp_user_timeout().map(|timeout| one.tcp_user_timeout(*timeout));
    all.get_keepalives_interval().map(|interval| one.keepalives_interval(interval));
    all.get_keepalives_retries().map(|retries| one.keepalives_retries(retries));
    one.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
    one.channel_binding(all.get_channel_binding()).target_session_attrs(all.get_target_session_attrs());
    one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
    one.load_balance_hosts(all.get_load_balance_hosts());
    one
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Each is what would be read of an address that names it alone, whatever else is said.
    #[test]
    fn each_has_all_that_is_said_of_all() {
        let more = "?application_name=a&options=-c%20geqo%3Doff&sslmode=disable&connect_timeout=7&tcp_user_timeout=8\
                    &keepalives_idle=9&keepalives_interval=10&keepalives_retries=11&keepalives=0\
                    &target_session_attrs=read-write&channel_binding=disable&load_balance_hosts=random";
        let read = |servers: &str| format!("postgres://u:p@{servers}/d{more}").parse::<Config>().unwrap();
        let alone = ["one:1", "two:2", "three:3"];
        assert_eq!(each(&read(&alone.join(","))), alone.map(read));
        assert_eq!(each(&read("one:1")), [read("one:1")]);
        let sockets: Config = "host=/one,two hostaddr=127.0.0.1,127.0.0.2 port=5 user=u".parse().unwrap();
        let alone = ["host=/one hostaddr=127.0.0.1", "host=two hostaddr=127.0.0.2"];
        let alone = alone.map(|server| format!("{server} port=5 user=u").parse().unwrap());
        assert_eq!(each(&sockets), alone);
        for odd in ["host=one,two,three port=1,2", "host=one,two hostaddr=127.0.0.1"] {
            let odd: Config = odd.parse().unwrap();
            assert_eq!(each(&odd), [odd]);
        }
    }
}
