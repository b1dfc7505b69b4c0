// Package status records what a reconciler decided: conditions, and patches that land only on the object version that was decided on.
package status
