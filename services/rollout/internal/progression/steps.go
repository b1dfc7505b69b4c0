package progression

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"magosproject.io/api/v1alpha1"
)

// cohorts says which members belong to which step.
type cohorts struct {
	// steps holds the members of each step, by name.
	steps [][]*v1alpha1.Workspace
	// unmatched members belong to no step and never run.
	unmatched []*v1alpha1.Workspace
}

// assign puts every member into the first step whose selector matches it.
func assign(steps []v1alpha1.RolloutStep, members []*v1alpha1.Workspace) (cohorts, error) {
	if len(steps) == 0 {
		return cohorts{}, errors.New("spec.strategy.steps is empty: write at least one step")
	}
	selectors := make([]labels.Selector, len(steps))
	for i := range steps {
		selector, err := metav1.LabelSelectorAsSelector(&steps[i].Selector)
		if err != nil {
			return cohorts{}, fmt.Errorf("the selector of step %q cannot be understood: %w", steps[i].Name, err)
		}
		selectors[i] = selector
	}
	c := cohorts{steps: make([][]*v1alpha1.Workspace, len(steps))}
	for _, m := range members {
		i := firstMatch(selectors, labels.Set(m.Labels))
		if i < 0 {
			c.unmatched = append(c.unmatched, m)
			continue
		}
		c.steps[i] = append(c.steps[i], m)
	}
	return c, nil
}

func firstMatch(selectors []labels.Selector, set labels.Set) int {
	for i, selector := range selectors {
		if selector.Matches(set) {
			return i
		}
	}
	return -1
}

// empty returns the names of the steps that match no member, from index on.
func (c cohorts) empty(steps []v1alpha1.RolloutStep, from int) []string {
	var names []string
	for i := from; i < len(c.steps); i++ {
		if len(c.steps[i]) == 0 {
			names = append(names, steps[i].Name)
		}
	}
	return names
}

// outside returns the members of all steps but the one of index except, by step and name.
func (c cohorts) outside(except int) []*v1alpha1.Workspace {
	var members []*v1alpha1.Workspace
	for i, step := range c.steps {
		if i != except {
			members = append(members, step...)
		}
	}
	return members
}

// sameSteps compares steps as a person would: an absent list equals an empty one.
func sameSteps(a, b []v1alpha1.RolloutStep) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i].DeepCopy(), b[i].DeepCopy()
		if !sameSelector(&x.Selector, &y.Selector) {
			return false
		}
		x.Selector, y.Selector = metav1.LabelSelector{}, metav1.LabelSelector{}
		if !equality.Semantic.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// sameSelector reports whether two selectors say the same. The canonical text of a selector tells;
// where one cannot be understood they are taken for different.
func sameSelector(a, b *metav1.LabelSelector) bool {
	x, errX := metav1.LabelSelectorAsSelector(a)
	y, errY := metav1.LabelSelectorAsSelector(b)
	return errX == nil && errY == nil && x.String() == y.String()
}
