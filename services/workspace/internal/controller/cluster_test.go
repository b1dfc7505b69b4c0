package controller

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster"
)

// patience is how long something may take that happens at once; it only ends a test that has failed.
const patience = 3 * time.Minute

// requests counts what goes to the API server. Watches are one request each for as long as they last.
type requests struct {
	http.RoundTripper
	mutex sync.Mutex
	list  []string
}

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		r.mutex.Lock()
		r.list = append(r.list, request.Method+" "+request.URL.Path)
		r.mutex.Unlock()
	}
	return r.RoundTripper.RoundTrip(request)
}

func (r *requests) all() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.list)
}

// running starts both reconcilers and the hints as a service does, in the namespace of h, with the real clock.
func (h *harness) running() *requests {
	h.Helper()
	counted := &requests{}
	restConfig := rest.CopyConfig(apiServer)
	restConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { counted.RoundTripper = next; return counted })
	options := ctrl.Options{
		Scheme:     testcluster.Scheme(h.T),
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{h.namespace: {}}},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	options.Metrics.BindAddress = "0"
	LimitCache(&options.Cache)
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		h.Fatal(err)
	}
	if err := AddIndexes(h.Context(), mgr.GetFieldIndexer()); err != nil {
		h.Fatal(err)
	}
	objects := NewObjects(mgr.GetCache(), mgr.GetAPIReader())
	h.workspaces = &Reconciler{Config: Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Objects: objects, Runner: h.workspaces.Runner, RefWatcher: h.workspaces.RefWatcher,
		Events: events.NewFakeRecorder(1000), Metrics: NewMetrics(prometheus.NewRegistry()), Clock: clock.RealClock{},
		Drift: NewDriftSlots(10, mgr.GetClient()),
	}}
	h.sets = &VariableSetReconciler{Client: mgr.GetClient(), Objects: objects, Clock: clock.RealClock{}}
	hints := NewHints(h.workspaces.Runner, []string{h.namespace}, clock.RealClock{}, slog.New(slog.DiscardHandler))
	if err := mgr.Add(hints); err != nil {
		h.Fatal(err)
	}
	if err := SetUp(mgr, h.workspaces, h.sets, hints.Channel(), 2); err != nil {
		h.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(h.Context()) }()
	h.Cleanup(func() {
		if err := <-ended; err != nil {
			h.Errorf("the manager: %v", err)
		}
	})
	return counted
}

// eventually waits until the Workspace is as wanted.
func (h *harness) eventually(what string, reached func(*v1alpha1.Workspace) bool) *v1alpha1.Workspace {
	h.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if w := h.workspace(); reached(w) {
			return w
		}
	}
	w := h.workspace()
	h.Fatalf("never %s: %+v, run %+v", what, w.Status, w.Status.Run)
	return nil
}

func TestARunningServiceBringsAWorkspaceToApplied(t *testing.T) {
	h := newHarness(t)
	h.running()
	h.runner.Auto = true
	h.create(standing())
	h.eventually("waiting for the Project", func(w *v1alpha1.Workspace) bool { return w.Status.Reason == v1alpha1.ReasonProjectNotFound })
	h.create(project())
	w := h.eventually("applied", applied)
	if w.Status.ObservedRevision != commitA {
		t.Errorf("observed %s", w.Status.ObservedRevision)
	}
	h.checkRuns(1)

	h.create(&v1alpha1.Rollout{ObjectMeta: metadataNamed("net"), Spec: v1alpha1.RolloutSpec{
		ProjectRef: "net", Strategy: v1alpha1.RolloutStrategy{Steps: []v1alpha1.RolloutStep{{Name: "all"}}},
	}})
	h.annotate(v1alpha1.AnnotationDetectedRevision, commitB)
	h.eventually("waiting for its turn", func(w *v1alpha1.Workspace) bool {
		return w.Status.Phase == v1alpha1.PhasePending && w.Status.Reason == v1alpha1.ReasonAwaitingRollout && w.Status.Wants.Revision == commitB
	})
	if len(h.runner.Started()) != 2 {
		t.Errorf("started %v without a grant of the Rollout", h.runner.Started())
	}
}

func TestHintsSurviveTheEndOfTheStream(t *testing.T) {
	h := newHarness(t)
	h.running()
	h.create(project(), standing())
	planning := func(w *v1alpha1.Workspace) bool { return w.Status.Reason == v1alpha1.ReasonPlanRunning }
	w := h.eventually("planning", planning)
	h.runner.EndStreams()
	for end := time.Now().Add(patience); h.runner.Watchers() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the stream is not opened again")
		}
	}
	// Without the hint the plan's end is seen half a minute later. A busy machine can be as slow once, not each time.
	var took time.Duration
	for round := range 4 {
		before := time.Now()
		h.runner.Succeed("plan "+w.Status.Run.ID, true)
		h.eventually("applied", applied)
		if took = time.Since(before); took < 15*time.Second {
			return
		}
		h.annotate(v1alpha1.AnnotationReconcileRequest, fmt.Sprint("round ", round))
		w = h.eventually("planning again", planning)
	}
	t.Errorf("it took %s: the hint is not what helps", took)
}

func TestAPassThatChangesNothingCostsNothing(t *testing.T) {
	h := newHarness(t)
	counted := h.running()
	h.runner.Auto = true
	set := &v1alpha1.VariableSet{ObjectMeta: metadataNamed("cloud"), Spec: v1alpha1.VariableSetSpec{Variables: []v1alpha1.Variable{
		{Name: "token", ValueFrom: &v1alpha1.ValueSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "cloud", Key: "token"}}},
	}}}
	w := standing()
	w.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "cloud"}}
	h.create(project(), set, &corev1.Secret{ObjectMeta: metadataNamed("cloud"), Data: map[string][]byte{"token": []byte("x")}}, w)
	h.eventually("applied", applied)
	t.Logf("%d requests to the API server from nothing to Applied: %v", len(counted.all()), counted.all())
	// The manager runs beside the test, and the cache is a moment behind: what it still has to do ends, a cost of each pass does not.
	var cost string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		calls, sent := len(h.runner.Calls()), len(counted.all())
		h.passes(50)
		for range 50 {
			if _, err := h.sets.Reconcile(t.Context(), h.request("cloud")); err != nil {
				t.Fatal(err)
			}
		}
		more, called := counted.all()[sent:], len(h.runner.Calls())-calls+h.refwatcher.Calls()
		if len(more) == 0 && called == 0 {
			return
		}
		cost = fmt.Sprintf("%v to the API server and %d calls to peers", more, called)
	}
	t.Errorf("100 passes without a change send %s", cost)
}

func TestSecretsAreCachedByNameAndVersionAlone(t *testing.T) {
	h := newHarness(t)
	h.running()
	h.create(&corev1.Secret{
		ObjectMeta: metadataWithAnnotation("cloud", "kubectl.kubernetes.io/last-applied-configuration", "everything"),
		Data:       map[string][]byte{"token": []byte("x")},
	}, project(), standing())
	h.runner.Auto = true
	h.eventually("applied", applied)
	metadata := metadataOf("Secret")
	if err := h.workspaces.Objects.metadata.Get(t.Context(), h.request("cloud").NamespacedName, metadata); err != nil {
		t.Fatal(err)
	}
	if len(metadata.Annotations) > 0 || metadata.ResourceVersion == "" {
		t.Errorf("cached: %+v", metadata.ObjectMeta)
	}
}

func TestAChangeRequeuesWhatItAffectsAndNothingElse(t *testing.T) {
	h := newHarness(t)
	h.running()
	secret := v1alpha1.Variable{Name: "a", ValueFrom: &v1alpha1.ValueSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "cloud", Key: "k"}}}
	set := func(name string, v ...v1alpha1.Variable) *v1alpha1.VariableSet {
		return &v1alpha1.VariableSet{ObjectMeta: metadataNamed(name), Spec: v1alpha1.VariableSetSpec{Variables: v}}
	}
	p := project()
	p.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "shared"}}
	member, own, other := standing(), standing(), standing()
	own.Name, own.Spec.ProjectRef.Name, own.Spec.VariableSetRef = "own", "elsewhere", []v1alpha1.VariableSetReference{{Name: "mine"}}
	other.Name, other.Spec.ProjectRef.Name = "other", "elsewhere"
	h.create(p, set("shared", secret), set("mine", secret), set("unused"), member, own, other)
	find := finder{h.workspaces.Client}
	for name, c := range map[string]struct {
		find found
		of   string
		want []string
	}{
		"a Project":                                 {find.ofProject, "net", []string{"vpc"}},
		"a VariableSet of a Project":                {find.ofSet, "shared", []string{"vpc"}},
		"a VariableSet of a Workspace":              {find.ofSet, "mine", []string{"own"}},
		"a VariableSet of nobody":                   {find.ofSet, "unused", nil},
		"a Secret":                                  {find.ofReferenced("Secret"), "cloud", []string{"own", "vpc"}},
		"a ConfigMap of the same name":              {find.ofReferenced("ConfigMap"), "cloud", nil},
		"a Secret, among VariableSets":              {find.setsReferringTo("Secret"), "cloud", []string{"mine", "shared"}},
		"a Secret that nobody refers to, on either": {find.setsReferringTo("Secret"), "tls", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				keys, err := c.find(t.Context(), h.namespace, c.of)
				if err != nil {
					t.Fatal(err)
				}
				got = nil
				for _, key := range keys {
					got = append(got, key.Name)
				}
				if slices.Sort(got); slices.Equal(got, c.want) {
					return
				}
			}
			t.Errorf("found %v, want %v", got, c.want)
		})
	}
}

func TestStatusOfVariableSets(t *testing.T) {
	h := newHarness(t)
	h.running()
	value := "eu"
	ref := func(name, object, key string, optional bool) v1alpha1.Variable {
		return v1alpha1.Variable{Name: name, ValueFrom: &v1alpha1.ValueSource{SecretKeyRef: &v1alpha1.KeyReference{Name: object, Key: key, Optional: optional}}}
	}
	set := &v1alpha1.VariableSet{ObjectMeta: metadataNamed("cloud"), Spec: v1alpha1.VariableSetSpec{Variables: []v1alpha1.Variable{
		{Name: "region", Value: &value}, ref("token", "cloud", "token", false), ref("extra", "cloud", "extra", true),
		{Name: "cidr", ValueFrom: &v1alpha1.ValueSource{ConfigMapKeyRef: &v1alpha1.KeyReference{Name: "network", Key: "cidr"}}},
	}}}
	h.create(set)
	wait := func(what string, reached func(v1alpha1.VariableSetStatus) bool) v1alpha1.VariableSetStatus {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if err := h.admin.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				t.Fatal(err)
			}
			if reached(set.Status) {
				return set.Status
			}
		}
		t.Fatalf("never %s: %+v", what, set.Status)
		return set.Status
	}
	st := wait("failed", func(st v1alpha1.VariableSetStatus) bool { return st.Phase == v1alpha1.VariableSetFailed })
	want := []v1alpha1.UnresolvedReference{
		{Kind: "Secret", Name: "cloud", Key: "token", Reason: v1alpha1.UnresolvedResourceNotFound},
		{Kind: "ConfigMap", Name: "network", Key: "cidr", Reason: v1alpha1.UnresolvedResourceNotFound},
	}
	if !slices.Equal(st.UnresolvedReferences, want) || st.ResolvedVariables != 1 || st.Reason != v1alpha1.ReasonUnresolvedReferences {
		t.Errorf("status %+v", st)
	}
	h.create(&corev1.Secret{ObjectMeta: metadataNamed("cloud"), Data: map[string][]byte{"other": {}}},
		&corev1.ConfigMap{ObjectMeta: metadataNamed("network"), Data: map[string]string{"cidr": "10.0.0.0/8"}})
	st = wait("missing a key", func(st v1alpha1.VariableSetStatus) bool { return st.ResolvedVariables == 2 })
	if len(st.UnresolvedReferences) != 1 || st.UnresolvedReferences[0].Reason != v1alpha1.UnresolvedKeyNotFound {
		t.Errorf("status %+v", st)
	}
	secret := &corev1.Secret{}
	if err := h.admin.Get(t.Context(), client.ObjectKeyFromObject(set), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["token"] = []byte("never-to-be-seen")
	if err := h.admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	st = wait("ready", func(st v1alpha1.VariableSetStatus) bool { return st.Phase == v1alpha1.VariableSetReady })
	if st.Reason != v1alpha1.ReasonAllReferencesResolved || st.ResolvedVariables != 3 || len(st.UnresolvedReferences) > 0 || st.ObservedGeneration != 1 {
		t.Errorf("status %+v", st)
	}
}
