package runs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
)

// lists answers each list as the test lets it.
type lists struct {
	client.Reader
	begun  chan []string
	answer chan error
}

func (l *lists) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	requirements, _ := o.LabelSelector.Requirements()
	uids := requirements[0].Values().UnsortedList()
	slices.Sort(uids)
	jobs, isJobs := list.(*batchv1.JobList)
	if !isJobs {
		for _, uid := range uids {
			pod := corev1.Pod{}
			pod.Labels = map[string]string{v1alpha1.LabelWorkspaceUID: uid}
			list.(*corev1.PodList).Items = append(list.(*corev1.PodList).Items, pod)
		}
		return nil
	}
	l.begun <- uids
	for _, uid := range uids {
		job := batchv1.Job{}
		job.Name, job.Labels = "job-of-"+uid, map[string]string{v1alpha1.LabelWorkspaceUID: uid}
		jobs.Items = append(jobs.Items, job)
	}
	return <-l.answer
}

type heard struct {
	uid  string
	jobs []batchv1.Job
	pods []corev1.Pod
	err  error
}

// ask asks in the background, and returns once the question is noted.
func ask(ctx context.Context, t *testing.T, all *together, uid string, into chan<- heard) {
	t.Helper()
	before := waiting(all)
	go func() {
		jobs, pods, err := all.ask(ctx, "team", uid)
		into <- heard{uid, jobs, pods, err}
	}()
	for len(all.api.(*lists).begun) == 0 && waiting(all) == before {
		time.Sleep(time.Millisecond)
	}
}

func waiting(all *together) int {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	return len(all.asked["team"])
}

// A list that was sent before the question could miss a Job that was made in between.
func TestLaw2AListNeverAnswersAQuestionThatCameAfterIt(t *testing.T) {
	api := &lists{begun: make(chan []string, 1), answer: make(chan error)}
	all, answers := newTogether(api), make(chan heard, 4)
	ask(t.Context(), t, all, "a", answers)
	first := <-api.begun
	if strings.Join(first, ",") != "a" {
		t.Fatalf("the first list is of %v", first)
	}
	for _, uid := range []string{"b", "c", "a"} {
		ask(t.Context(), t, all, uid, answers)
	}
	api.answer <- nil
	if got := <-answers; got.uid != "a" || got.err != nil || len(got.jobs) != 1 {
		t.Errorf("the first answer is %+v", got)
	}
	second := <-api.begun
	if !slices.Equal(slices.Compact(second), []string{"a", "b", "c"}) {
		t.Fatalf("the second list is of %v, want those that asked meanwhile", second)
	}
	if len(answers) > 0 {
		t.Error("who asked while the first list was on its way was answered by it")
	}
	api.answer <- nil
	for range 3 {
		got := <-answers
		if got.err != nil || len(got.jobs) != 1 || got.jobs[0].Name != "job-of-"+got.uid || len(got.pods) != 1 || got.pods[0].Labels[v1alpha1.LabelWorkspaceUID] != got.uid {
			t.Errorf("the answer for %s is %+v", got.uid, got)
		}
	}
}

func TestAListThatFailsFailsForAllWhoAskedForIt(t *testing.T) {
	api := &lists{begun: make(chan []string, 1), answer: make(chan error)}
	all, answers := newTogether(api), make(chan heard, 2)
	impatient, leave := context.WithCancel(t.Context())
	ask(impatient, t, all, "a", answers)
	<-api.begun
	ask(t.Context(), t, all, "b", answers)
	leave()
	if got := <-answers; !errors.Is(got.err, context.Canceled) {
		t.Errorf("who lost patience got %v", got.err)
	}
	api.answer <- nil
	<-api.begun
	down := errors.New("down")
	api.answer <- down
	if got := <-answers; got.uid != "b" || !errors.Is(got.err, down) || got.jobs != nil {
		t.Errorf("the answer is %+v, want an error and nothing that looks like there being no Job", got)
	}
	if _, _, err := all.ask(t.Context(), "team", "no, label"); err == nil {
		t.Error("a UID that no label can have was asked for")
	}
}
