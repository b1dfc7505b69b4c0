package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	refwatcherpb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	runnerpb "magosproject.io/gen/magos/runner/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/certs/certstest"
	"magosproject.io/internal/rpcclient"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/service"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/workspace/internal/peertest"
)

const (
	release  = certstest.Namespace
	account  = "magos-workspace"
	patience = 3 * time.Minute
	commit   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

var apiServer *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	testcluster.Main(m, func(config *rest.Config) { apiServer = config })
}

// fixture is the whole service, with the rights of rbac.yaml and no others, between an API server and two peers.
type fixture struct {
	*testing.T
	admin      client.WithWatch
	namespace  string
	bundle     *certs.Bundle
	runner     *peertest.Runner
	refwatcher *peertest.RefWatcher
	address    string
	tokens     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server; make test has one")
	}
	admin := testcluster.Client(t, apiServer)
	f := &fixture{T: t, admin: admin, runner: peertest.NewRunner(admin), refwatcher: peertest.NewRefWatcher(admin), tokens: t.TempDir()}
	f.namespace = testcluster.Namespace(t, admin)
	// What is left by an earlier test of this API server is the same, but for the certificates.
	f.must(client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: release}})))
	material := certstest.Secret(t)
	f.must(client.IgnoreNotFound(admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: release, Name: certs.SecretTLS}})))
	f.must(admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: release, Name: certs.SecretTLS}, Data: material}))
	f.bundle = certs.NewBundle(certs.BundleConfig{})
	f.must(f.bundle.Load(material[certs.KeyBundle], material[certs.KeyCertificate], material[certs.KeyPrivate]))
	f.bindRoles()
	f.start(f.servePeers())
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// bindRoles creates the roles of rbac.yaml and binds them to the account.
func (f *fixture) bindRoles() {
	f.Helper()
	content, err := os.ReadFile("rbac.yaml")
	f.must(err)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: release, Name: account}}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var role rbacv1.ClusterRole // a Role has the same fields, as far as they are used
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return
		} else {
			f.must(err)
		}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.Kind, Name: role.Name}
		if role.Kind == "Role" {
			f.ensure(&rbacv1.Role{ObjectMeta: role.ObjectMeta, Rules: role.Rules}, &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: ref, Subjects: subjects})
			continue
		}
		binding := metav1.ObjectMeta{Name: role.Name}
		f.ensure(&rbacv1.ClusterRole{ObjectMeta: role.ObjectMeta, Rules: role.Rules}, &rbacv1.ClusterRoleBinding{ObjectMeta: binding, RoleRef: ref, Subjects: subjects})
	}
}

// ensure creates what an earlier test has not left.
func (f *fixture) ensure(objects ...client.Object) {
	f.Helper()
	for _, object := range objects {
		f.must(client.IgnoreAlreadyExists(f.admin.Create(f.Context(), object)))
	}
}

// servePeers serves runner and refwatcher with the release's certificate and returns where.
func (f *fixture) servePeers() string {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(f.bundle.ServerConfig())))
	runnerpb.RegisterRunnerServiceServer(server, f.runner)
	refwatcherpb.RegisterRefWatcherServiceServer(server, f.refwatcher)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	f.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			f.Errorf("serving the peers: %v", err)
		}
	})
	return listener.Addr().String()
}

func (f *fixture) start(peers string) {
	f.Helper()
	config := service.NewDefaultConfig()
	config.ReleaseNamespace, config.TokenDir = release, f.tokens
	config.GRPCListen, config.HTTPListen = testcluster.Address(f.T), "127.0.0.1:0"
	f.address, config.AdvertiseAddress = config.GRPCListen, config.GRPCListen
	// A busy machine takes no lease away, and cuts nothing off at the end.
	config.LeaseDuration, config.RenewDeadline = 10*time.Minute, 5*time.Minute
	config.DrainDelay, config.DrainTimeout = 0, 3*time.Minute
	for _, peer := range []string{"runner", "refwatcher"} {
		config.Peers[peer] = peers
		f.must(os.WriteFile(filepath.Join(f.tokens, peer), []byte("token-for-"+peer), 0o600))
	}
	restConfig := rest.CopyConfig(apiServer)
	restConfig.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", release, account),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + release, "system:authenticated"},
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- service.RunWith(ctx, newDefinition(), config, restConfig, slog.New(slog.NewTextHandler(f.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	}()
	f.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.Errorf("the service: %v", err)
		}
	})
}

// client calls the service as an account of the namespace that has the verbs on workspaces.
func (f *fixture) client(name string, verbs ...string) pb.WorkspaceServiceClient {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: name}
	f.must(f.admin.Create(f.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"workspaces"}, Verbs: append(verbs, "none")},
	}}))
	f.must(f.admin.Create(f.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: name}},
	}))
	file := filepath.Join(f.tokens, name)
	f.must(os.WriteFile(file, []byte(testcluster.Token(f.T, f.admin, f.namespace, name, "magos-workspace")), 0o600))
	connection, err := rpcclient.Dial(rpcclient.Config{
		Target: "passthrough:///" + f.address, ServerName: "magos-workspace." + release + ".svc", TLS: f.bundle, TokenFile: file, Timeout: time.Minute,
	})
	f.must(err)
	f.Cleanup(func() { _ = connection.Close() })
	return pb.NewWorkspaceServiceClient(connection)
}

// eventually repeats what only needs time.
func (f *fixture) eventually(what string, try func() error) {
	f.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	f.Fatalf("%s: %v", what, err)
}

func (f *fixture) expect(err error, code codes.Code, reason string) {
	f.Helper()
	if rpcerr.Code(err) != code || rpcerr.Reason(err) != reason {
		f.Errorf("%s %s (%v), want %s %s", rpcerr.Code(err), rpcerr.Reason(err), err, code, reason)
	}
}

// follow returns a function that waits for the next version of a Workspace that is as wanted. It sees every version.
func (f *fixture) follow(name string) func(wanted func(*v1alpha1.Workspace) bool) *v1alpha1.Workspace {
	f.Helper()
	var list v1alpha1.WorkspaceList
	f.must(f.admin.List(f.Context(), &list, client.InNamespace(f.namespace)))
	watcher, err := f.admin.Watch(f.Context(), &v1alpha1.WorkspaceList{}, client.InNamespace(f.namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	f.must(err)
	f.Cleanup(watcher.Stop)
	return func(wanted func(*v1alpha1.Workspace) bool) *v1alpha1.Workspace {
		f.Helper()
		end := time.After(patience)
		for {
			select {
			case event := <-watcher.ResultChan():
				if w, ok := event.Object.(*v1alpha1.Workspace); ok && w.Name == name && wanted(w) {
					return w
				}
			case <-end:
				f.Fatalf("no such version of %s", name)
			}
		}
	}
}

func (f *fixture) createWorkspace(name string, auto bool) {
	f.Helper()
	w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	w.Spec = v1alpha1.WorkspaceSpec{
		ProjectRef: v1alpha1.ProjectReference{Name: "net"}, AutoApply: &auto,
		Source:    v1alpha1.WorkspaceSource{RepoURL: "https://git.example.com/net.git", TargetRevision: "main"},
		Terraform: v1alpha1.TerraformSpec{Version: "1.14.8"},
	}
	w.Annotations = v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass, For: v1alpha1.GrantSubject(w)}.Annotations()
	w.Annotations[v1alpha1.AnnotationReconcileInterval] = "2h"
	f.must(f.admin.Create(f.Context(), w))
}

func TestTheServiceWithTheRightsOfItsRole(t *testing.T) {
	f := newFixture(t)
	f.runner.Auto = true
	f.refwatcher.Set("main", commit)
	f.must(f.admin.Create(t.Context(), &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "net"}}))
	f.must(f.admin.Create(t.Context(), &v1alpha1.VariableSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "empty"}}))
	for _, name := range []string{"a", "b", "c", "d"} {
		f.createWorkspace(name, true)
	}
	f.createWorkspace("gated", false)
	person := f.client("person", "get", "list", "watch", "patch", "approve", "cancel")
	ref := func(name string) *corepb.ObjectRef { return &corepb.ObjectRef{Namespace: f.namespace, Name: name} }
	get := func(name string) (*pb.Workspace, error) {
		response, err := person.GetWorkspace(t.Context(), &pb.GetWorkspaceRequest{Workspace: ref(name)})
		return response.GetWorkspace(), err
	}
	isIn := func(name, phase string) func() error {
		return func() error {
			w, err := get(name)
			if err == nil && w.GetPhase() != phase {
				err = fmt.Errorf("%s is %s/%s: %s", name, w.GetPhase(), w.GetReason(), w.GetMessage())
			}
			return err
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		f.eventually("applying", isIn(name, "Applied"))
	}
	w, err := get("a")
	f.must(err)
	if w.GetObservedRevision() != commit || w.GetRun().GetChanges().GetAdd() != 2 || w.GetProject() != "net" || w.GetNextReconcileAt() == nil || w.GetRef().GetUid() == "" {
		t.Errorf("shown as %v", w)
	}
	f.eventually("an Event of the success", func() error {
		var list corev1.EventList
		if err := f.admin.List(t.Context(), &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Reason == v1alpha1.ReasonApplySucceeded && event.InvolvedObject.Name == "a" {
				return nil
			}
		}
		return fmt.Errorf("none among %d", len(list.Items))
	})
	f.eventually("the status of a VariableSet", func() error {
		set := &v1alpha1.VariableSet{}
		err := f.admin.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "empty"}, set)
		if err == nil && set.Status.Phase != v1alpha1.VariableSetReady {
			err = fmt.Errorf("%+v", set.Status)
		}
		return err
	})

	t.Run("pages are stable", func(t *testing.T) {
		var names []string
		token := ""
		for {
			page, err := person.ListWorkspaces(t.Context(), &pb.ListWorkspacesRequest{Namespace: f.namespace, Project: "net", PageSize: 2, PageToken: token})
			f.must(err)
			for _, w := range page.GetWorkspaces() {
				names = append(names, w.GetRef().GetName())
			}
			if len(names) == 2 {
				f.createWorkspace("aa", true) // before what was shown: it neither repeats nor hides others
				f.eventually("seen", func() error { _, err := get("aa"); return err })
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if got := fmt.Sprint(names); got != "[a b c d gated]" {
			t.Errorf("listed %s", got)
		}
		_, err := person.ListWorkspaces(t.Context(), &pb.ListWorkspacesRequest{Namespace: f.namespace, PageSize: 501})
		f.expect(err, codes.InvalidArgument, rpcerr.InvalidField)
		_, err = person.ListWorkspaces(t.Context(), &pb.ListWorkspacesRequest{Namespace: f.namespace, PageToken: "!"})
		f.expect(err, codes.InvalidArgument, rpcerr.InvalidField)
	})
	t.Run("a watch has the present state, changes and ends", func(t *testing.T) {
		stream, err := person.WatchWorkspaces(t.Context(), &pb.WatchWorkspacesRequest{Namespace: f.namespace})
		f.must(err)
		seen := map[string]bool{}
		for len(seen) < 6 {
			message, err := stream.Recv()
			f.must(err)
			seen[message.GetWorkspace().GetRef().GetName()] = true
		}
		victim := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "d"}}
		f.must(f.admin.Delete(t.Context(), victim))
		f.eventually("only the runner holds it, which lets it go", func() error {
			if err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(victim), victim); err != nil {
				return client.IgnoreNotFound(err)
			}
			if slices.Contains(victim.Finalizers, v1alpha1.FinalizerWorkspace) {
				return fmt.Errorf("it has finalizers %v", victim.Finalizers)
			}
			victim.Finalizers = nil
			return client.IgnoreNotFound(f.admin.Update(t.Context(), victim))
		})
		for {
			message, err := stream.Recv()
			f.must(err)
			if message.GetDeleted() {
				if name := message.GetWorkspace().GetRef().GetName(); name != "d" {
					t.Errorf("%s is told to be gone", name)
				}
				return
			}
		}
	})
	t.Run("commands", func(t *testing.T) {
		f.eventually("planning", isIn("gated", "Planned"))
		var id string
		f.eventually("waiting", func() error {
			w, err := get("gated")
			if id = w.GetAwaitingApprovalRunId(); err == nil && id == "" {
				err = fmt.Errorf("%v", w)
			}
			return err
		})
		_, err := person.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: ref("a"), RunId: id})
		f.expect(err, codes.FailedPrecondition, rpcerr.NotAwaitingApproval)
		_, err = person.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: ref("gated"), RunId: "older"})
		f.expect(err, codes.FailedPrecondition, rpcerr.NotAwaitingApproval)
		_, err = person.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: ref("gated"), RunId: id, PlanDigest: "another"})
		f.expect(err, codes.FailedPrecondition, rpcerr.NotAwaitingApproval)
		_, err = person.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: ref("gone"), RunId: id})
		f.expect(err, codes.NotFound, rpcerr.WorkspaceNotFound)
		_, err = person.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: ref("gated")})
		f.expect(err, codes.InvalidArgument, rpcerr.InvalidField)
		answer, err := person.Explain(t.Context(), &pb.ExplainRequest{Workspace: ref("gated")})
		f.must(err)
		if !strings.HasPrefix(answer.GetSentence(), "Workspace gated waits for a person to approve its plan (AwaitingApproval)") ||
			len(answer.GetChain()) != 1 || !strings.Contains(answer.GetWayOut(), "magosproject.io/approved="+id) {
			t.Errorf("explained with %v", answer)
		}
		_, err = person.Explain(t.Context(), &pb.ExplainRequest{Workspace: ref("gone")})
		f.expect(err, codes.NotFound, rpcerr.WorkspaceNotFound)

		versions := f.follow("gated")
		for range 2 {
			if _, err = person.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: ref("gated"), RunId: id, PlanDigest: "sealed-" + id}); err != nil {
				t.Fatal(err)
			}
			f.eventually("applying", isIn("gated", "Applied"))
		}
		approved := versions(func(w *v1alpha1.Workspace) bool { return w.Annotations[v1alpha1.AnnotationApproved] == id })
		if by, want := approved.Annotations[v1alpha1.AnnotationApprovedBy], "system:serviceaccount:"+f.namespace+":person"; by != want {
			t.Errorf("approved by %q, want %q", by, want)
		}
		versions(func(w *v1alpha1.Workspace) bool {
			_, approved := w.Annotations[v1alpha1.AnnotationApproved]
			_, by := w.Annotations[v1alpha1.AnnotationApprovedBy]
			return !approved && !by
		})

		before, err := get("a")
		f.must(err)
		_, err = person.RequestReconcile(t.Context(), &pb.RequestReconcileRequest{Workspace: ref("a")})
		f.expect(err, codes.InvalidArgument, rpcerr.InvalidField)
		for range 2 {
			_, err = person.RequestReconcile(t.Context(), &pb.RequestReconcileRequest{Workspace: ref("a"), RequestId: "now"})
			f.must(err)
		}
		f.eventually("a manual run", func() error {
			w, err := get("a")
			if err == nil && (w.GetRun().GetId() == before.GetRun().GetId() || w.GetRun().GetTrigger() != "Manual" || w.GetPhase() != "Applied") {
				err = fmt.Errorf("%v", w)
			}
			return err
		})
	})
	t.Run("cancelling", func(t *testing.T) { f.cancelAWaitingPlan(person) })
	t.Run("where variables come from", func(t *testing.T) { f.checkResolveVariables(person) })
	t.Run("rights", func(t *testing.T) {
		reader := f.client("reader", "get", "patch")
		f.eventually("the binding to be seen", func() error {
			_, err := reader.GetWorkspace(t.Context(), &pb.GetWorkspaceRequest{Workspace: ref("a")})
			return err
		})
		_, err := reader.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: ref("a"), RunId: "x"})
		f.expect(err, codes.PermissionDenied, rpcerr.PermissionDenied)
		_, err = reader.CancelRun(t.Context(), &pb.CancelRunRequest{Workspace: ref("a"), RunId: "x"})
		f.expect(err, codes.PermissionDenied, rpcerr.PermissionDenied)
		_, err = reader.Explain(t.Context(), &pb.ExplainRequest{Workspace: ref("a")}) // the chain tells of others
		f.expect(err, codes.PermissionDenied, rpcerr.PermissionDenied)
		_, err = reader.ListWorkspaces(t.Context(), &pb.ListWorkspacesRequest{Namespace: f.namespace})
		f.expect(err, codes.PermissionDenied, rpcerr.PermissionDenied)
		_, err = person.ListWorkspaces(t.Context(), &pb.ListWorkspacesRequest{})
		f.expect(err, codes.PermissionDenied, rpcerr.PermissionDenied)
	})
}
