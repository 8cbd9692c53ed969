//! Durations as people write them: `1500` (milliseconds), `250ms`, `1.5s`, `2m`, `1h`.

use std::time::Duration;

/// The units; a longer name comes before a shorter one that it ends with.
const UNITS: &[(&str, u32)] = &[("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];

/// The longest duration that can be written: about 292,000 years, in microseconds.
const LONGEST: f64 = 9.2e18;

/// Parses a duration; `None` if it is invalid. A plain number is in milliseconds.
pub fn parse_duration(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" => 1_000,
        unit => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    // A dot needs digits on both sides.
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return None;
    }
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(u64::from(unit)).map(Duration::from_micros),
        Err(_) => {
            let micros = number.parse::<f64>().ok()? * f64::from(unit);
            (micros <= LONGEST).then(|| Duration::from_micros(micros.round() as u64))
        }
    }
}

/// Formats a duration for [`parse_duration`], in a suitable unit.
pub fn spell_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0 => "0ms".to_owned(),
        _ if micros.is_multiple_of(3_600_000_000) => format!("{}h", micros / 3_600_000_000),
        _ if micros.is_multiple_of(60_000_000) => format!("{}m", micros / 60_000_000),
        1_000_000.. => format!("{}s", in_thousandths(micros, 1_000_000)),
        _ if micros.is_multiple_of(1_000) => format!("{}ms", micros / 1_000),
        _ => format!("{micros}us"),
    }
}

fn in_thousandths(micros: u128, unit: u128) -> String {
    let text = format!("{}.{:06}", micros / unit, micros % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        let read = |text: &str| parse_duration(text.as_bytes()).map(|duration| duration.as_micros());
        assert_eq!(read("1500"), Some(1_500_000));
        assert_eq!(read("250ms"), Some(250_000));
        assert_eq!(read("1.5s"), Some(1_500_000));
        assert_eq!(read("2m"), Some(120_000_000));
        assert_eq!(read("1H"), Some(3_600_000_000));
        assert_eq!(read("0"), Some(0));
        for wrong in ["", "s", "-1", "1d", "1.", ".5s", "1.5.5s", "1e3", "99999999999999999999h", "nan", "\u{661}s"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_spelt_as_they_are_read() {
        for micros in [0, 1, 999, 1_000, 250_000, 1_500_000, 61_000_000, 120_000_000, 7_200_000_000, 1_000_001] {
            let duration = Duration::from_micros(micros);
            assert_eq!(parse_duration(spell_duration(duration).as_bytes()), Some(duration), "{micros}");
        }
        assert_eq!(spell_duration(Duration::from_millis(1500)), "1.5s");
    }
}
