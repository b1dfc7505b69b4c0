package main

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// checkResolveVariables asks for the variables of a Workspace of a Project that has sets of its own.
func (f *fixture) checkResolveVariables(person pb.WorkspaceServiceClient) {
	f.Helper()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: f.namespace, Name: name} }
	value := "literal-value"
	literal := func(name string) v1alpha1.Variable { return v1alpha1.Variable{Name: name, Value: &value} }
	secret := func(name, key string, optional bool) v1alpha1.Variable {
		return v1alpha1.Variable{Name: name, ValueFrom: &v1alpha1.ValueSource{
			SecretKeyRef: &v1alpha1.KeyReference{Name: "resolve", Key: key, Optional: optional}}}
	}
	set := func(name string, variables ...v1alpha1.Variable) *v1alpha1.VariableSet {
		return &v1alpha1.VariableSet{ObjectMeta: named(name), Spec: v1alpha1.VariableSetSpec{Variables: variables}}
	}
	project := &v1alpha1.Project{ObjectMeta: named("resolved")}
	project.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "base"}, {Name: "more"}}
	w := &v1alpha1.Workspace{ObjectMeta: named("resolved")}
	w.Spec = v1alpha1.WorkspaceSpec{
		ProjectRef: v1alpha1.ProjectReference{Name: "resolved"},
		Source:     v1alpha1.WorkspaceSource{RepoURL: "https://git.example.com/net.git", TargetRevision: "main"},
		Terraform:  v1alpha1.TerraformSpec{Version: "1.14.8", TfvarsPath: "envs/dev.tfvars"},
	}
	w.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "own"}, {Name: "gone"}}
	f.must(f.admin.Create(f.Context(), &corev1.Secret{ObjectMeta: named("resolve"), Data: map[string][]byte{"token": []byte("secret-value")}}))
	f.must(f.admin.Create(f.Context(), set("base", literal("size"), literal("region"))))
	f.must(f.admin.Create(f.Context(), set("more", literal("size"), secret("lost", "nothing", false), secret("perhaps", "nothing", true))))
	f.must(f.admin.Create(f.Context(), set("own", secret("size", "token", false))))
	f.must(f.admin.Create(f.Context(), w))
	ask := func() (*pb.ResolveVariablesResponse, error) {
		return person.ResolveVariables(f.Context(), &pb.ResolveVariablesRequest{Workspace: &corepb.ObjectRef{Namespace: f.namespace, Name: "resolved"}})
	}
	f.eventually("the Project to be missed", func() error {
		response, err := ask()
		if err == nil && (!response.GetProjectMissing() || len(response.GetVariables()) != 1) {
			err = fmt.Errorf("%v", response)
		}
		return err
	})
	f.must(f.admin.Create(f.Context(), project))
	want := []string{
		"lost: Project more Secret resolve nothing; has no value, KeyNotFound",
		"perhaps: Project more Secret resolve nothing optional; has no value, ",
		"region: Project base Literal  ; has a value, ",
		"size: Workspace own Secret resolve token; has a value, ; shadows Project more Literal  ; shadows Project base Literal  ",
	}
	f.eventually("every source", func() error {
		response, err := ask()
		if err != nil {
			return err
		}
		if text := prototext.Format(response); strings.Contains(text, "secret-value") || strings.Contains(text, value) {
			f.Fatalf("a value is told: %s", text)
		}
		var got []string
		for _, v := range response.GetVariables() {
			text := fmt.Sprintf("%s: %s; has %s value, %s", v.GetName(), describeSource(v.GetSource()), map[bool]string{true: "a", false: "no"}[v.GetHasValue()], v.GetUnresolvedReason())
			for _, source := range v.GetShadows() {
				text += "; shadows " + describeSource(source)
			}
			got = append(got, text)
		}
		missing, file := response.GetMissingVariableSets(), response.GetTfvarsPath()
		if strings.Join(got, "\n") != strings.Join(want, "\n") || fmt.Sprint(missing) != "[gone]" || file != "envs/dev.tfvars" || response.GetProjectMissing() {
			return fmt.Errorf("got\n%s\nand %v, %s", strings.Join(got, "\n"), missing, file)
		}
		return nil
	})
	_, err := person.ResolveVariables(f.Context(), &pb.ResolveVariablesRequest{Workspace: &corepb.ObjectRef{Namespace: f.namespace, Name: "no"}})
	f.expect(err, codes.NotFound, rpcerr.WorkspaceNotFound)
	_, err = person.ResolveVariables(f.Context(), &pb.ResolveVariablesRequest{Workspace: &corepb.ObjectRef{Namespace: f.namespace}})
	f.expect(err, codes.InvalidArgument, rpcerr.InvalidField)
	reader := f.client("lister", "list")
	_, err = reader.ResolveVariables(f.Context(), &pb.ResolveVariablesRequest{Workspace: &corepb.ObjectRef{Namespace: f.namespace, Name: "resolved"}})
	f.expect(err, codes.PermissionDenied, rpcerr.PermissionDenied)
}

func describeSource(source *pb.VariableSource) string {
	text := fmt.Sprintf("%s %s %s %s %s", source.GetNamedBy(), source.GetVariableSet(), source.GetKind(), source.GetObject(), source.GetKey())
	if source.GetOptional() {
		text += " optional"
	}
	return text
}
