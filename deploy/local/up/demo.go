package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
)

// demoTimeout is for the demo's pass to end when nothing fails. The first one downloads nothing from outside, but a slow
// machine needs a minute for each step.
const demoTimeout = 15 * time.Minute

// failurePatience is how long a failure must last to count: one of before is still shown until the services have seen
// what is new, and a Rollout has no Workspaces until they are made.
const failurePatience = 30 * time.Second

// Demo applies the demo's Project, Rollout and Workspaces, shows the Rollout's work, and returns when every Workspace has
// applied the same commit. That commit is returned. When the context ends, it removes what Start would.
func (i *Installation) Demo(ctx context.Context) (string, error) {
	manifests, err := demo.ProjectManifests()
	if err != nil {
		return "", err
	}
	if err := i.report(i.apply(ctx, manifests)); err != nil {
		return "", abandon(ctx, i.options, i, fmt.Errorf("applying the demo: %w", err))
	}
	commit, err := i.Follow(ctx, "")
	if err != nil {
		return "", abandon(ctx, i.options, i, err)
	}
	return commit, nil
}

// view is the demo at one moment.
type view struct {
	rollout    *magosv1alpha1.Rollout
	workspaces []*magosv1alpha1.Workspace // in the order of the steps
}

func (i *Installation) look(ctx context.Context) (view, error) {
	v := view{rollout: &magosv1alpha1.Rollout{}}
	if err := i.read(ctx, "rollouts", demo.Project, v.rollout); err != nil {
		return view{}, err
	}
	for _, step := range demo.Steps {
		workspace := &magosv1alpha1.Workspace{}
		if err := i.read(ctx, "workspaces", demo.Project+"-"+step, workspace); err != nil {
			return view{}, err
		}
		v.workspaces = append(v.workspaces, workspace)
	}
	return v, nil
}

func (i *Installation) read(ctx context.Context, resource, name string, into any) error {
	found, err := i.objects.Resource(magosv1alpha1.GroupVersion.WithResource(resource)).Namespace(demo.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", strings.TrimSuffix(resource, "s"), name, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into); err != nil {
		return fmt.Errorf("reading %s %s: %w", strings.TrimSuffix(resource, "s"), name, err)
	}
	return nil
}

// settled returns the commit that every Workspace has applied, and whether there is one and nothing more to do. With a
// commit given it must be that one.
func (v view) settled(commit string) (string, bool) {
	for _, w := range v.workspaces {
		applied := w.Status.ObservedRevision
		if commit == "" {
			commit = applied
		}
		busy := w.Status.Wants != nil && w.Status.Wants.Trigger != magosv1alpha1.TriggerDrift
		detected := w.Annotations[magosv1alpha1.AnnotationDetectedRevision]
		if applied == "" || applied != commit || busy || w.Status.Phase != magosv1alpha1.PhaseApplied || (detected != "" && detected != applied) {
			return "", false
		}
	}
	return commit, v.rollout.Status.Phase != magosv1alpha1.RolloutProgressing
}

// failure is what keeps the demo from going on without a person.
func (v view) failure() error {
	for _, w := range v.workspaces {
		if w.Status.Phase == magosv1alpha1.PhaseFailed {
			return fmt.Errorf("workspace %s failed (%s): %s", w.Name, w.Status.Reason, w.Status.Message)
		}
	}
	if v.rollout.Status.Phase == magosv1alpha1.RolloutFailed {
		return fmt.Errorf("rollout %s failed (%s): %s", v.rollout.Name, v.rollout.Status.Reason, v.rollout.Status.Message)
	}
	return nil
}

// Follow shows the Rollout's work and returns when every Workspace has applied the commit, or with "" the same one, whichever
// it is. A failure ends it.
func (i *Installation) Follow(ctx context.Context, commit string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoTimeout, errors.New("it takes too long"))
	defer cancel()
	table := newTable(i.options.Progress)
	var failing time.Time
	for {
		v, err := i.look(ctx)
		if err != nil && ctx.Err() == nil {
			return "", err
		}
		if err == nil {
			table.show(v)
			if applied, done := v.settled(commit); done {
				return applied, nil
			}
			err = v.failure()
		}
		switch {
		case err == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > failurePatience && ctx.Err() == nil:
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the Rollout (rollout %s: %s %s): %w", demo.Project,
				v.rolloutPhase(), v.rolloutMessage(), context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}

func (v view) rolloutPhase() string {
	if v.rollout == nil {
		return "not read"
	}
	return string(v.rollout.Status.Phase)
}

func (v view) rolloutMessage() string {
	if v.rollout == nil {
		return ""
	}
	return v.rollout.Status.Message
}
