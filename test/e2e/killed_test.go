package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
)

// A victim is a service that is killed while a step of the pass is at a moment.
type victim struct{ service, step string }

// TestEachServiceIsKilledAtEachMoment kills every process of each service, without a word of warning, while the pod of a plan runs,
// while that of an apply runs, and between one Workspace's end and the next one's beginning. All Workspaces still reach Applied,
// with one plan and one apply Job per run. (Between a plan and its apply: TestAPlanWaitsForTheApprovalThatNamesItsRun.)
func TestEachServiceIsKilledAtEachMoment(t *testing.T) {
	moments := []struct {
		name, phase string
		victims     []victim
	}{
		{"a plan runs", "plan", []victim{{"rollout", "dev"}, {"refwatcher", "dev"}, {"workspace", "staging"}, {"runner", "prod"}}},
		{"an apply runs", "apply", []victim{{"rollout", "dev"}, {"refwatcher", "dev"}, {"workspace", "staging"}, {"runner", "prod"}}},
		{"nothing runs between two Workspaces", "", []victim{{"rollout", "dev"}, {"refwatcher", "dev"}, {"workspace", "staging"}, {"runner", "staging"}}},
	}
	w := newWorld(t)
	repo := w.clone()
	jobs := w.countJobs()
	for _, moment := range moments {
		t.Run(moment.name, func(t *testing.T) {
			w := newWorld(t)
			// A pod runs for some seconds; a machine that stalls can miss them. Then the next commit has the same moment.
			victims := moment.victims
			for try := 1; len(victims) > 0; try++ {
				if try > 5 {
					t.Fatalf("the moment was missed again and again for %v", victims)
				}
				w.freshServices()
				repo.write(map[string]string{demo.MessageFile: fmt.Sprintf("Greetings while %s, %d\n", moment.name, try)})
				commit := repo.push("main", "killed while "+moment.name)
				var missed []victim
				for _, v := range victims {
					if !w.awaitMoment(demo.Project+"-"+v.step, commit, moment.phase) {
						missed = append(missed, v)
						continue
					}
					w.kill(v.service)
				}
				w.expectRolledOut(commit)
				w.expectOrder(commit)
				victims = missed
			}
		})
	}
	jobs.check(w)
}

// freshServices replaces the pods that were killed before, for which the kubelet would keep a killed service waiting longer each
// time, and waits until every pod of every service is ready.
func (w world) freshServices() {
	w.Helper()
	for _, pod := range w.servicePods("") {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount == 0 {
				continue
			}
			if err := w.Delete(w.Context(), &pod, client.GracePeriodSeconds(1)); client.IgnoreNotFound(err) != nil {
				w.Fatal(err)
			}
		}
	}
	w.eventually("every service is ready", func(context.Context) error {
		for _, pod := range w.servicePods("") {
			if pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0 {
				return fmt.Errorf("%s is starting or ending", pod.Name)
			}
			for _, status := range pod.Status.ContainerStatuses {
				if !status.Ready || status.RestartCount > 0 {
					return fmt.Errorf("%s is not ready", pod.Name)
				}
			}
		}
		return nil
	})
}

// awaitMoment waits until the pod of that phase of the Workspace's run of the commit runs; with no phase, until the run has
// succeeded. It is false when the run is over before the moment was seen: then there is nothing to interrupt.
func (w world) awaitMoment(name, commit, phase string) (seen bool) {
	w.Helper()
	seen = true
	w.eventually(fmt.Sprintf("%s is where it is to be interrupted (%q)", name, phase), func(ctx context.Context) error {
		ws, err := w.workspace(ctx, demo.Namespace, name)
		if err != nil {
			return err
		}
		run := ws.Status.Run
		if run == nil || run.Revision != commit {
			return fmt.Errorf("its run is %+v", run)
		}
		if phase == "" {
			if run.Phase != v1alpha1.RunSucceeded {
				return fmt.Errorf("its run is %s", run.Phase)
			}
			return nil
		}
		if run.Phase.Terminal() {
			seen = false
			return nil
		}
		pods := &corev1.PodList{}
		if err := w.List(ctx, pods, client.InNamespace(demo.Namespace),
			client.MatchingLabels{v1alpha1.LabelRunID: run.ID, v1alpha1.LabelRunPhase: phase}); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning {
				return nil
			}
		}
		return fmt.Errorf("its run is %s and no pod of the %s runs", run.Phase, phase)
	})
	return seen
}

// servicePods lists the pods of one service, or of all.
func (w world) servicePods(service string) []corev1.Pod {
	w.Helper()
	labels := client.MatchingLabels{"app.kubernetes.io/name": "magos"}
	if service != "" {
		labels["app.kubernetes.io/component"] = service
	}
	list := &corev1.PodList{}
	if err := w.List(w.Context(), list, client.InNamespace("magos-system"), labels); err != nil {
		w.Fatal(err)
	}
	if len(list.Items) == 0 {
		w.Fatalf("service %q has no pods", service)
	}
	return list.Items
}

// kill sends SIGKILL to the processes of a service's containers, from outside of them.
func (w world) kill(service string) {
	w.Helper()
	killed := 0
	for _, pod := range w.servicePods(service) {
		for _, pid := range w.processesOf(string(pod.UID)) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				w.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		w.Fatalf("no process of service %s was found to kill", service)
	}
}

// processesOf lists the processes in the control groups of a pod, except the one that only holds the pod's namespaces.
func (w world) processesOf(podUID string) []int {
	w.Helper()
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		w.Fatal(err)
	}
	var pids []int
	for _, group := range groups {
		content, err := os.ReadFile(group)
		if err != nil || !bytes.Contains(content, []byte("pod"+podUID)) {
			continue // it ended meanwhile, or is somebody else's
		}
		name, err := os.ReadFile(filepath.Join(filepath.Dir(group), "comm"))
		if err != nil || bytes.HasPrefix(name, []byte("pause")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(group)))
		if err != nil {
			w.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// jobCount remembers every run Job that was ever seen, also those that are removed again.
type jobCount struct {
	mu   sync.Mutex
	uids map[string]map[string]bool // run ID and phase -> UIDs
	stop func()
	done chan struct{}
}

// countJobs follows the Jobs of the demo until the test ends.
func (w world) countJobs() *jobCount {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	watch, err := w.Watch(ctx, &batchv1.JobList{}, client.InNamespace(demo.Namespace))
	if err != nil {
		cancel()
		w.Fatal(err)
	}
	c := &jobCount{uids: map[string]map[string]bool{}, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for event := range watch.ResultChan() {
			job, ok := event.Object.(*batchv1.Job)
			if !ok {
				continue
			}
			c.mu.Lock()
			key := job.Labels[v1alpha1.LabelRunID] + " " + job.Labels[v1alpha1.LabelRunPhase]
			if c.uids[key] == nil {
				c.uids[key] = map[string]bool{}
			}
			c.uids[key][string(job.UID)] = true
			c.mu.Unlock()
		}
	}()
	w.Cleanup(func() { cancel(); <-c.done })
	return c
}

// check fails for every phase of a run that had more than one Job, and when the Jobs of what is applied now were not seen.
func (c *jobCount) check(w world) {
	w.Helper()
	c.stop()
	<-c.done
	for key, uids := range c.uids {
		if len(uids) != 1 {
			w.Errorf("run and phase %q had %d Jobs, want 1", key, len(uids))
		}
	}
	for _, step := range demo.Steps {
		ws, err := w.demoWorkspace(w.Context(), step)
		if err != nil {
			w.Fatal(err)
		}
		for _, phase := range []string{"plan", "apply"} {
			if key := ws.Status.Applied.RunID + " " + phase; len(c.uids[key]) == 0 {
				w.Errorf("no Job was seen of %s, which %s has applied: the count is worth nothing", key, ws.Name)
			}
		}
	}
	w.Logf("%d Jobs seen, one for each run and phase", len(c.uids))
}
