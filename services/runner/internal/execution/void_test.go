package execution

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

// voidJob is kept as void since ago; deleted says whether it is being deleted by now.
func voidJob(t *testing.T, ago time.Duration, deleted, suspended bool) *batchv1.Job {
	t.Helper()
	job := testJob(runspec.PhaseApply)
	text, err := VoidResult(testNow.Add(-ago)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations = map[string]string{v1alpha1.AnnotationRunVoid: "true", v1alpha1.AnnotationRunResult: text}
	job.Spec.Suspend = ptr.To(suspended)
	if deleted {
		job.DeletionTimestamp = ptrAt(-ago)
	}
	return job
}

// Whatever somebody does to a Job that is kept as void: it is deleted, so that it gets no pod; a pod that it has all the same is
// asked to end; and it goes when no pod of it lives and no StartRun can be on its way any more that has to find its name taken.
func TestLaw2AVoidJobIsNotLetGoWhileAPodOfItLives(t *testing.T) {
	live := endedApply(running())
	asked := live.DeepCopy()
	asked.DeletionTimestamp = ptrAt(-time.Second)
	freed := endedApply(exited(0, ""))
	freed.Finalizers = nil
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		action Action // once it is deleted, and old enough
	}{
		"no pod":                        {nil, ActionReleaseJob},
		"a pod that waits":              {testPod(runspec.PhaseApply), ActionEndPods},
		"a pod that runs":               {live, ActionEndPods},
		"a pod that is asked to end":    {asked, ActionNone},
		"a pod that has ended":          {endedApply(exited(0, "")), ActionReleasePods},
		"a pod that has ended, and let": {freed, ActionReleaseJob},
	} {
		for _, suspended := range []bool{true, false} {
			var pods []*corev1.Pod
			if c.pod != nil {
				pods = append(pods, c.pod)
			}
			if action, _ := Next(observe(voidJob(t, time.Hour, false, suspended), pods...)); action != ActionDelete {
				t.Errorf("%s, suspended %v: first %s", name, suspended, action)
			}
			o := observe(voidJob(t, time.Hour, true, suspended), pods...)
			if action, j := Next(o); action != c.action || j.State != StateVoid {
				t.Errorf("%s, suspended %v: then %s, the run is %s", name, suspended, action, j.State)
			}
			o = observe(voidJob(t, TombstoneAge-time.Second, true, suspended), pods...)
			action, j := Next(o)
			if c.action != ActionReleaseJob && action != c.action {
				t.Errorf("%s, suspended %v, young: %s", name, suspended, action)
			}
			if c.action == ActionReleaseJob && (action != ActionNone || j.Recheck != time.Second) {
				t.Errorf("%s, suspended %v: %s, again in %v, while a StartRun may be on its way", name, suspended, action, j.Recheck)
			}
		}
	}
}

// A result that is kept must not hide that the node of a pod is lost: else the pod would be held for good.
func TestALostPodOfAVoidJobIsLookedFor(t *testing.T) {
	pod := endedApply(running())
	pod.DeletionTimestamp = ptrAt(-time.Hour)
	o := observe(voidJob(t, time.Hour, true, true), pod)
	if j := Judge(o); len(j.Suspects) != 1 || j.Recheck == 0 {
		t.Fatalf("suspects %v, again in %v", j.Suspects, j.Recheck)
	}
	o.NodesGone["node-1"] = true
	if action, _ := Next(o); action != ActionReleasePods {
		t.Errorf("its node is gone: %s", action)
	}
}
