//! Geo positions: as scores that keep neighbours together, and the distances between them.
//!
//! A score has 52 bits: longitude and latitude interleaved, each as a fraction of its range. Latitudes end where the
//! Mercator projection makes the map a square.

mod area;
mod hash;
mod polygon;

pub use hash::standard_hash;
use hash::{Cell, MOST_STEPS};
pub use polygon::Polygon;

use std::sync::Arc;

const LATITUDES: (f64, f64) = (-85.051_128_78, 85.051_128_78);
const LONGITUDES: (f64, f64) = (-180.0, 180.0);

const EARTH_RADIUS: f64 = 6_372_797.560_856;

/// A position, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub longitude: f64,
    pub latitude: f64,
}

/// The shape of a search; its lengths are in `Search::unit`.
#[derive(Clone, Debug)]
pub enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
    Polygon(Arc<Polygon>),
}

/// A search for positions around a center.
#[derive(Clone, Debug)]
pub struct Search {
    pub center: Point,
    pub shape: Shape,
    /// Meters in the unit of the shape's lengths.
    pub unit: f64,
}

impl Point {
    /// Whether the map contains the position.
    pub fn is_on_map(self) -> bool {
        let within = |value: f64, (least, most): (f64, f64)| !(value < least || value > most);
        within(self.longitude, LONGITUDES) && within(self.latitude, LATITUDES)
    }

    /// The score of a position on the map.
    pub fn score(self) -> u64 {
        Cell::of(self, MOST_STEPS, LATITUDES).bits
    }

    /// The center of the cell that a score stands for.
    pub fn from_score(score: f64) -> Self {
        Cell { bits: whole(score), steps: MOST_STEPS }.area().middle()
    }

    /// Meters to another position, on the surface of a sphere.
    pub fn distance(self, other: Self) -> f64 {
        let half_sine = |one: f64, other: f64| ((other.to_radians_as_c() - one.to_radians_as_c()) / 2.0).sin();
        let v = half_sine(self.longitude, other.longitude);
        if v == 0.0 {
            return self.distance_north(other);
        }
        let u = half_sine(self.latitude, other.latitude);
        let cosines = self.latitude.to_radians_as_c().cos() * other.latitude.to_radians_as_c().cos();
        // For antipodes, rounding can exceed the domain of the arc sine.
        2.0 * EARTH_RADIUS * (u * u + cosines * v * v).sqrt().min(1.0).asin()
    }

    /// Meters between two parallels.
    fn distance_north(self, other: Self) -> f64 {
        EARTH_RADIUS * (other.latitude.to_radians_as_c() - self.latitude.to_radians_as_c()).abs()
    }
}

impl Search {
    /// The distance of a position from the center in meters, if the shape covers it.
    pub fn distance_within(&self, point: Point) -> Option<f64> {
        let center = self.center;
        match &self.shape {
            Shape::Circle { radius } => {
                let distance = center.distance(point);
                if distance > radius * self.unit { None } else { Some(distance) }
            }
            Shape::Box { width, height } => {
                if point.distance_north(center) > height * self.unit / 2.0 {
                    return None;
                }
                let beside = Point { longitude: center.longitude, ..point };
                if point.distance(beside) > width * self.unit / 2.0 { None } else { Some(center.distance(point)) }
            }
            Shape::Polygon(polygon) => polygon.contains(point).then(|| center.distance(point)),
        }
    }
}

/// Degrees to radians and back with Redis's rounding, which differs from the standard library's.
trait Degrees {
    fn to_radians_as_c(self) -> f64;
    fn to_degrees_as_c(self) -> f64;
}

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

impl Degrees for f64 {
    fn to_radians_as_c(self) -> f64 {
        self * RADIANS_PER_DEGREE
    }

    fn to_degrees_as_c(self) -> f64 {
        self / RADIANS_PER_DEGREE
    }
}

/// A score as an integer, converted as a 64-bit processor does. A sorted set can hold scores that are no positions.
pub fn whole(score: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if score < HALF {
        score as i64 as u64
    } else if score < 2.0 * HALF {
        score as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_where_everybody_says_they_are() {
        let (palermo, catania) = (
            Point { longitude: 13.361_389, latitude: 38.115_556 },
            Point { longitude: 15.087_269, latitude: 37.502_669 },
        );
        assert_eq!((palermo.score(), catania.score()), (3_479_099_956_230_698, 3_479_447_370_796_909));
        let kept = [palermo, catania].map(|point| Point::from_score(point.score() as f64));
        assert_eq!(format!("{:.4}", kept[0].distance(kept[1])), "166274.1516");
        assert_eq!(standard_hash(kept[0]), *b"sqc8b49rny0");
    }

    #[test]
    fn any_number_can_be_a_score() {
        assert_eq!(whole(-1.5), u64::MAX);
        assert_eq!(whole(1e19), 10_000_000_000_000_000_000);
        assert_eq!((whole(f64::INFINITY), whole(f64::NEG_INFINITY)), (0, 1 << 63));
    }

    proptest! {
        #[test]
        fn what_a_shape_covers_is_found_in_one_of_its_areas(
            longitude in -180.0..180.0f64,
            latitude in -80.0..80.0f64,
            away in (-1.0..1.0f64, -1.0..1.0f64),
            radius in 1.0..500_000.0f64,
            boxed in any::<bool>(),
        ) {
            let center = Point { longitude, latitude };
            let shape = if boxed { Shape::Box { width: radius, height: radius / 2.0 } } else { Shape::Circle { radius } };
            let point = Point { longitude: longitude + away.0, latitude: latitude + away.1 };
            prop_assume!(point.is_on_map());
            let score = point.score() as f64;
            let search = Search { center, shape, unit: 1.0 };
            prop_assume!(search.distance_within(Point::from_score(score)).is_some());
            prop_assert!(search.areas().iter().any(|scores| scores.contains(&score)));
        }
    }
}
