package controller

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// The name of a run's ConfigMap can be foreseen by whoever may create ConfigMaps, and the executor does what it says.
func TestAConfigMapOfOthersIsNotUsed(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	request := w.request(run, runspec.PhasePlan, "")
	requestDigest, err := request.Digest()
	w.must(err)
	for name, change := range map[string]func(*corev1.ConfigMap){
		"other instructions": func(c *corev1.ConfigMap) {
			c.Data["instructions.json"] = strings.ReplaceAll(c.Data["instructions.json"], "git.example.com", "git.evil.example")
		},
		"another value":      func(c *corev1.ConfigMap) { c.Data["variable-0"] = "c" },
		"one more key":       func(c *corev1.ConfigMap) { c.Data["variable-1"] = "c" },
		"binary data":        func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"variable-1": []byte("c")} },
		"it can be changed":  func(c *corev1.ConfigMap) { c.Immutable = nil },
		"false, not unset":   func(c *corev1.ConfigMap) { c.Immutable = ptr.To(false) },
		"no labels":          func(c *corev1.ConfigMap) { c.Labels = nil },
		"of another request": func(c *corev1.ConfigMap) { c.Annotations[v1alpha1.AnnotationRequestDigest] = "sha256:1" },
		"it is going":        func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/held"} },
	} {
		config, err := execution.RenderConfigMap(request, w.runs().Settings, requestDigest, execution.PlanFacts{})
		w.must(err)
		change(config)
		w.must(w.admin.Create(t.Context(), config))
		held := len(config.Finalizers) > 0
		if held {
			w.must(w.admin.Delete(t.Context(), config))
		}
		_, err = w.start(run, runspec.PhasePlan, "")
		w.refused(name, err, codes.FailedPrecondition, rpcerr.ConfigMapDiffers)
		if !strings.Contains(err.Error(), config.Namespace+"/"+config.Name) || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%s: the refusal %q does not say which ConfigMap to delete", name, err)
		}
		if held {
			w.must(w.admin.Get(t.Context(), client.ObjectKeyFromObject(config), config))
			config.Finalizers = nil
			w.must(w.admin.Update(t.Context(), config))
		} else {
			w.must(w.admin.Delete(t.Context(), config))
		}
	}
	jobs := &batchv1.JobList{}
	w.must(w.admin.List(t.Context(), jobs, client.InNamespace(w.namespace)))
	if len(jobs.Items) != 0 {
		t.Errorf("%d Jobs were made", len(jobs.Items))
	}

	// What an earlier attempt of the runner made is used, also where somebody put an annotation beside ours.
	config, err := execution.RenderConfigMap(request, w.runs().Settings, requestDigest, execution.PlanFacts{})
	w.must(err)
	config.Annotations["example.com/note"] = "x"
	w.must(w.admin.Create(t.Context(), config))
	_, err = w.start(run, runspec.PhasePlan, "")
	w.must(err)
}

// A runner died between the ConfigMap and the Job, and the next one is of another release or has other flags: it starts the run, and
// what the first one left goes with the Job.
func TestAnUpgradeOfTheRunnerHoldsNoRunUp(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	request := w.request(run, runspec.PhasePlan, "")
	requestDigest, err := request.Digest()
	w.must(err)
	before := w.runs().Settings
	before.ToolMirror = "https://mirror.example.com/of-before"
	left, err := execution.RenderConfigMap(request, before, requestDigest, execution.PlanFacts{})
	w.must(err)
	w.must(w.admin.Create(t.Context(), left))
	_, err = w.start(run, runspec.PhasePlan, "")
	w.must(err)
	job := w.job(run, runspec.PhasePlan)
	config := &corev1.ConfigMap{}
	w.must(w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: execution.ConfigMapOf(job)}, config))
	if config.Name == left.Name || strings.Contains(config.Data["instructions.json"], "of-before") {
		t.Errorf("the Job reads %s, which an earlier runner left", config.Name)
	}
	w.kubelet(w.makePod(job), corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	w.record(run, v1alpha1.RunPlanned, digest)
	w.must(w.admin.Delete(t.Context(), w.job(run, runspec.PhasePlan)))
	w.must(w.settle())
	maps := &corev1.ConfigMapList{}
	w.must(w.admin.List(t.Context(), maps, client.InNamespace(w.namespace), client.HasLabels{v1alpha1.LabelRunID}))
	if len(maps.Items) != 0 {
		t.Errorf("%d ConfigMaps are left", len(maps.Items))
	}
}
