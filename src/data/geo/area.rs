//! The cells that a geo search scans: the center's cell and the neighbours that the shape can reach.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::hash::{Cell, MOST_STEPS};
use super::{Degrees, EARTH_RADIUS, LATITUDES, LONGITUDES, Point, Search, Shape};

/// Half the circumference of the Mercator map in meters.
const MERCATOR_MOST: f64 = 20_037_726.37;

/// A bounding box of latitudes and longitudes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub latitudes: (f64, f64),
    pub longitudes: (f64, f64),
}

impl Area {
    pub fn middle(self) -> Point {
        let middle = |(from, to): (f64, f64), (least, most): (f64, f64)| {
            let middle = (from + to) / 2.0;
            if middle > most {
                most
            } else if middle < least {
                least
            } else {
                middle
            }
        };
        Point { longitude: middle(self.longitudes, LONGITUDES), latitude: middle(self.latitudes, LATITUDES) }
    }

    /// The bounding box of a search.
    fn around(search: &Search) -> Self {
        let center = search.center;
        let (width, height) = match &search.shape {
            Shape::Polygon(polygon) => return polygon.bounds(),
            Shape::Circle { radius } => (radius * search.unit, radius * search.unit),
            Shape::Box { width, height } => (width / 2.0 * search.unit, height / 2.0 * search.unit),
        };
        let north = (height / EARTH_RADIUS).to_degrees_as_c();
        // A degree of longitude is shorter near a pole, so the edge nearer to the pole decides.
        let farthest = if center.latitude < 0.0 { center.latitude - north } else { center.latitude + north };
        let east = (width / EARTH_RADIUS / farthest.to_radians_as_c().cos()).to_degrees_as_c();
        Self {
            latitudes: (center.latitude - north, center.latitude + north),
            longitudes: (center.longitude - east, center.longitude + east),
        }
    }
}

/// The number of halvings of the map whose cells are about as large as a search of `radius` at a latitude.
fn steps_for(mut radius: f64, latitude: f64) -> u32 {
    if radius == 0.0 {
        return MOST_STEPS;
    }
    let mut steps = 1;
    while radius < MERCATOR_MOST {
        radius *= 2.0;
        steps += 1;
    }
    let near_pole = i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    (steps - 2 - near_pole).clamp(1, MOST_STEPS as i32) as u32
}

impl Search {
    /// The score ranges that cover the shape, in Redis's order.
    pub fn areas(&self) -> ArrayVec<Range<f64>, 9> {
        let bounds = Area::around(self);
        let radius = match &self.shape {
            Shape::Polygon(polygon) => polygon.reach(),
            Shape::Circle { radius } => *radius,
            Shape::Box { width, height } => ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
        };
        let mut steps = steps_for(radius * self.unit, self.center.latitude);
        let mut cell = Cell::of(self.center, steps, LATITUDES);
        if steps > 1 && !neighbours_reach(cell, bounds) {
            steps -= 1;
            cell = Cell::of(self.center, steps, LATITUDES);
        }
        let area = cell.area();
        let needed = |east: i64, north: i64| {
            steps < 2
                || !(north < 0 && area.latitudes.0 < bounds.latitudes.0
                    || north > 0 && area.latitudes.1 > bounds.latitudes.1
                    || east < 0 && area.longitudes.0 < bounds.longitudes.0
                    || east > 0 && area.longitudes.1 > bounds.longitudes.1)
        };
        let mut areas = ArrayVec::new();
        areas.push(cell.scores());
        let mut previous = None;
        for (east, north) in [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)] {
            let neighbour = cell.neighbour(east, north);
            // At a low precision, opposite neighbours are the same cell.
            if needed(east, north) && previous != Some(neighbour) {
                areas.push(neighbour.scores());
                previous = Some(neighbour);
            }
        }
        areas
    }
}

/// Whether a cell and its neighbours cover a bounding box.
fn neighbours_reach(cell: Cell, bounds: Area) -> bool {
    let area = |east, north| cell.neighbour(east, north).area();
    !(area(0, 1).latitudes.1 < bounds.latitudes.1
        || area(0, -1).latitudes.0 > bounds.latitudes.0
        || area(1, 0).longitudes.1 < bounds.longitudes.1
        || area(-1, 0).longitudes.0 > bounds.longitudes.0)
}
