package execution

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

// What a container may look like. Each is what a kubelet, or nobody, has written.
var containerStates = map[string]*corev1.ContainerState{
	"unreported": nil,
	"waiting":    ptr.To(waiting("ContainerCreating", "")),
	"running":    ptr.To(running()),
	"exit0":      ptr.To(exited(0, record(nil))),
	"exit1":      ptr.To(exited(1, record(nil))),
	"neverRan":   ptr.To(neverRan()),
}

var jobShapes = map[string]func(*batchv1.Job){
	"active":    func(*batchv1.Job) {},
	"voiding":   func(j *batchv1.Job) { void(j) },
	"resumed":   func(j *batchv1.Job) { void(j); j.Spec.Suspend = ptr.To(false) },
	"voided":    func(j *batchv1.Job) { void(j); jobCondition(j, batchv1.JobSuspended, -time.Hour) },
	"failed":    func(j *batchv1.Job) { jobCondition(j, batchv1.JobFailed, -time.Hour) },
	"complete":  func(j *batchv1.Job) { jobCondition(j, batchv1.JobComplete, -time.Hour) },
	"failedNow": func(j *batchv1.Job) { jobCondition(j, batchv1.JobFailed, 0) },
	"deleting":  func(j *batchv1.Job) { j.DeletionTimestamp = ptrAt(0) },
	"deleted":   func(j *batchv1.Job) { j.DeletionTimestamp = ptrAt(-time.Hour) },
}

func void(j *batchv1.Job) {
	j.Annotations = map[string]string{v1alpha1.AnnotationRunVoid: "true"}
	j.Spec.Suspend = ptr.To(true)
}

// podShape is everything about a pod but its containers.
type podShape struct {
	bound, nodeGone bool
	phase           corev1.PodPhase
	deleted         *time.Duration
	disrupted       *time.Duration
}

func podShapes() []podShape {
	var shapes []podShape
	times := []*time.Duration{nil, ptr.To(-time.Minute), ptr.To(-time.Hour)}
	for _, bound := range []bool{false, true} {
		for _, gone := range []bool{false, true} {
			for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed} {
				for _, deleted := range times {
					for _, disrupted := range times {
						shapes = append(shapes, podShape{bound, gone, phase, deleted, disrupted})
					}
				}
			}
		}
	}
	return shapes
}

func (s podShape) pod(states [3]string) *corev1.Pod {
	pod := testPod(runspec.PhasePlan)
	for i, name := range []string{runspec.ContainerKeeper, runspec.ContainerTool, runspec.ContainerShow} {
		if state := containerStates[states[i]]; state != nil {
			withStatus(pod, name, *state)
		}
	}
	if !s.bound {
		pod.Spec.NodeName = ""
	}
	pod.Status.Phase = s.phase
	if s.deleted != nil {
		pod.DeletionTimestamp = ptrAt(*s.deleted)
	}
	if s.disrupted != nil {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: at(*s.disrupted)}}
	}
	return pod
}

// provenEnded says law 2 of the design once more, in other words than the code.
func (s podShape) provenEnded(states [3]string, confirmed bool) bool {
	terminated, ran := 0, false
	for _, state := range states {
		switch state {
		case "exit0", "exit1":
			terminated++
			ran = true
		case "neverRan":
			terminated++
		case "running":
			ran = true
		}
	}
	longGone := func(d *time.Duration) bool { return d != nil && *d == -time.Hour }
	recent := func(d *time.Duration) bool { return d != nil && *d == -time.Minute }
	lost := s.bound && s.nodeGone && (longGone(s.deleted) || longGone(s.disrupted)) && !recent(s.deleted) && !recent(s.disrupted)
	// A person's word counts for a pod that somebody gave up: one that is being deleted, is called over, or has no node.
	given := confirmed && (s.deleted != nil || s.phase == corev1.PodSucceeded || s.phase == corev1.PodFailed || (s.bound && s.nodeGone))
	return terminated == 3 || (!ran && !s.bound && s.deleted != nil) || lost || given
}

// Every state of containers × pod × node × Job: a terminal state is reported exactly where the pod is proven ended and
// no other can come, success only where everything says so, and Pending only where nothing has run.
func TestWalkOfEveryStateHoldsTheLaws(t *testing.T) {
	walked, jobs := 0, map[string]*batchv1.Job{}
	for name, change := range jobShapes {
		jobs[name] = testJob(runspec.PhasePlan)
		change(jobs[name])
	}
	for _, shape := range podShapes() {
		for a := range containerStates {
			for b := range containerStates {
				for c := range containerStates {
					states := [3]string{a, b, c}
					pod := shape.pod(states)
					for jobName, job := range jobs {
						for _, confirmed := range []bool{false, true} {
							o := observe(job, pod)
							o.NodesGone["node-1"], o.Confirmed = shape.nodeGone, confirmed
							if problem := broken(o, shape, states, jobName); problem != "" {
								t.Fatalf("%s: job %s, containers %v, pod %+v, confirmed %v: %+v", problem, jobName, states, shape, confirmed, Judge(o).Result)
							}
							walked++
						}
					}
				}
			}
		}
	}
	t.Logf("%d states walked", walked)
	if walked < 400_000 {
		t.Errorf("only %d states walked", walked)
	}
}

func broken(o Observation, shape podShape, states [3]string, job string) string {
	action, j := Next(o)
	proven := shape.provenEnded(states, o.Confirmed)
	ran, live := false, false
	for _, s := range states {
		ran = ran || s == "running" || s == "exit0" || s == "exit1"
		live = live || s == "running"
	}
	switch {
	case j.State.Terminal() && !proven:
		return "law 2: ended without proof"
	case proven && ran && !j.State.Terminal():
		return "proven ended and not reported"
	case j.State == StateSucceeded && states != [3]string{"exit0", "exit0", "exit0"} && states != [3]string{"exit0", "exit0", "exit1"} && states != [3]string{"exit0", "exit0", "neverRan"}:
		return "success although a container did not succeed"
	case j.State == StateSucceeded && j.Plan == nil:
		return "success without a plan"
	case j.State == StatePending && ran:
		return "pending although something has run"
	case j.State == StateVoid && ran:
		return "void although something has run"
	case j.State == StateVoid && job != "voided" && job != "deleted":
		return "void although a pod may still come"
	case live && !proven && j.State != StateRunning:
		return "a container runs"
	case !proven && shape.bound && (shape.phase == corev1.PodFailed || shape.phase == corev1.PodSucceeded) && j.Reason != v1alpha1.ReasonNodeLost:
		return "marked as over by somebody else, and not NodeLost"
	case (action == ActionSuspend) != (job == "resumed" && j.State == StatePending):
		return fmt.Sprintf("of a Job that was cancelled, and resumed, the next action is %s", action)
	case j.State.Terminal() != (action == ActionRecord):
		return fmt.Sprintf("the next action is %s", action)
	case action == ActionReleaseJob || action == ActionReleasePods:
		return "let go before the result was kept"
	}
	if !proven && shape.bound && j.State == StateRunning && j.Reason == v1alpha1.ReasonNodeLost && len(j.Suspects) == 0 {
		return "nobody looks for the node"
	}
	return ""
}

// The same without a pod: terminal only where none can come, and where a person vouches for one that vanished.
func TestWalkWithoutPods(t *testing.T) {
	for jobName, change := range jobShapes {
		for _, shape := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			counted, confirmed := shape[0], shape[1]
			job := testJob(runspec.PhasePlan)
			change(job)
			if counted {
				job.Status.Failed = 1
			}
			o := observe(job)
			o.Confirmed = confirmed
			j := Judge(o)
			name := fmt.Sprintf("job %s, a pod was counted: %v, confirmed: %v", jobName, counted, confirmed)
			safe := counted && confirmed || !counted && map[string]bool{"voided": true, "failed": true, "complete": true, "failedNow": true, "deleted": true}[jobName]
			if j.State.Terminal() != safe {
				t.Errorf("%s: %+v", name, j.Result)
			}
			if j.State == StateSucceeded {
				t.Errorf("%s: success out of nothing", name)
			}
			if j.State == StateVoid && counted {
				t.Errorf("%s: void although a pod existed", name)
			}
		}
	}
}
