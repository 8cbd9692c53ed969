//! Polygons, as areas of a search.

use super::area::Area;
use super::{Degrees, Point};

/// A polygon of at least three vertices.
#[derive(Debug)]
pub struct Polygon {
    vertices: Vec<Point>,
}

impl Polygon {
    pub fn new(vertices: Vec<Point>) -> Self {
        Self { vertices }
    }

    /// The middle of the vertices on the sphere. Distances are measured from there.
    pub fn center(&self) -> Point {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for vertex in &self.vertices {
            let (longitude, latitude) = (vertex.longitude.to_radians_as_c(), vertex.latitude.to_radians_as_c());
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let (longitude, latitude) = (f64::atan2(y, x), f64::atan2(z, (x * x + y * y).sqrt()));
        Point { longitude: longitude.to_degrees_as_c(), latitude: latitude.to_degrees_as_c() }
    }

    pub(super) fn bounds(&self) -> Area {
        let range = |of: fn(&Point) -> f64| {
            let values = self.vertices.iter().map(of);
            (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
        };
        Area { latitudes: range(|vertex| vertex.latitude), longitudes: range(|vertex| vertex.longitude) }
    }

    /// Meters from the center to the farthest corner of the bounds.
    pub(super) fn reach(&self) -> f64 {
        let (center, bounds) = (self.center(), self.bounds());
        let corner = |longitude, latitude| center.distance(Point { longitude, latitude });
        let (west, east) = bounds.longitudes;
        let (south, north) = bounds.latitudes;
        [corner(west, north), corner(east, north), corner(west, south), corner(east, south)]
            .into_iter()
            .fold(0.0, f64::max)
    }

    /// Whether a ray from the point to the east crosses the sides an odd number of times.
    pub(super) fn contains(&self, point: Point) -> bool {
        let Some(mut before) = self.vertices.last() else { return false };
        let mut inside = false;
        for vertex in &self.vertices {
            let spans = (vertex.latitude > point.latitude) != (before.latitude > point.latitude);
            let slope = || {
                (before.longitude - vertex.longitude) * (point.latitude - vertex.latitude)
                    / (before.latitude - vertex.latitude)
                    + vertex.longitude
            };
            if spans && point.longitude < slope() {
                inside = !inside;
            }
            before = vertex;
        }
        inside
    }
}
