package runs

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
)

const (
	// listTimeout bounds the two lists of one answer.
	listTimeout = 15 * time.Second
	// maxTogether bounds for how many Workspaces one list asks.
	maxTogether = 50
)

// together lists the Jobs and Pods of Workspaces as they are now, those of one namespace that ask at the same time with one request each.
// A list never answers a question that came after it was sent: law 2 rests on what is seen then.
type together struct {
	api client.Reader

	mutex sync.Mutex
	// asked has the questions that no list was sent for yet, by namespace. A namespace is in it while somebody works for it.
	asked map[string][]question
}

type question struct {
	workspaceUID string
	answer       chan<- present
}

// present is what exists of one Workspace.
type present struct {
	jobs []batchv1.Job
	pods []corev1.Pod
	err  error
}

func newTogether(api client.Reader) *together {
	return &together{api: api, asked: map[string][]question{}}
}

// ask returns what exists of the Workspace now.
func (t *together) ask(ctx context.Context, namespace, workspaceUID string) ([]batchv1.Job, []corev1.Pod, error) {
	if _, err := ofWorkspaces(workspaceUID); err != nil {
		// One question that cannot be asked must not spoil the others.
		return nil, nil, err
	}
	answer := make(chan present, 1)
	t.mutex.Lock()
	waiting, isServed := t.asked[namespace]
	t.asked[namespace] = append(waiting, question{workspaceUID, answer})
	t.mutex.Unlock()
	if !isServed {
		// Who asks first works for all, and may have lost patience before the others are answered.
		go t.serve(context.WithoutCancel(ctx), namespace)
	}
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case a := <-answer:
		return a.jobs, a.pods, a.err
	}
}

// serve answers until nobody asks any more.
func (t *together) serve(ctx context.Context, namespace string) {
	for {
		t.mutex.Lock()
		batch := t.asked[namespace]
		if len(batch) == 0 {
			delete(t.asked, namespace)
			t.mutex.Unlock()
			return
		}
		count := min(len(batch), maxTogether)
		t.asked[namespace] = append([]question{}, batch[count:]...)
		t.mutex.Unlock()
		t.answer(ctx, namespace, batch[:count])
	}
}

func (t *together) answer(ctx context.Context, namespace string, questions []question) {
	uids := make([]string, 0, len(questions))
	for _, q := range questions {
		uids = append(uids, q.workspaceUID)
	}
	all := t.list(ctx, namespace, uids)
	for _, q := range questions {
		own := present{err: all.err}
		for i := range all.jobs {
			if all.jobs[i].Labels[v1alpha1.LabelWorkspaceUID] == q.workspaceUID {
				own.jobs = append(own.jobs, all.jobs[i])
			}
		}
		for i := range all.pods {
			if all.pods[i].Labels[v1alpha1.LabelWorkspaceUID] == q.workspaceUID {
				own.pods = append(own.pods, all.pods[i])
			}
		}
		q.answer <- own
	}
}

func (t *together) list(ctx context.Context, namespace string, uids []string) present {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	selector, err := ofWorkspaces(uids...)
	if err != nil {
		return present{err: err}
	}
	options := &client.ListOptions{Namespace: namespace, LabelSelector: selector}
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	if err := t.api.List(ctx, jobs, options); err != nil {
		return present{err: fmt.Errorf("listing jobs in %s: %w", namespace, err)}
	}
	if err := t.api.List(ctx, pods, options); err != nil {
		return present{err: fmt.Errorf("listing pods in %s: %w", namespace, err)}
	}
	return present{jobs: jobs.Items, pods: pods.Items}
}

func ofWorkspaces(uids ...string) (labels.Selector, error) {
	requirement, err := labels.NewRequirement(v1alpha1.LabelWorkspaceUID, selection.In, uids)
	if err != nil {
		return nil, fmt.Errorf("selecting what is of workspaces: %w", err)
	}
	return labels.NewSelector().Add(*requirement), nil
}
