package execution

import (
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/repocreds"
	"magosproject.io/services/runner/internal/runspec"
)

// runUser is the user and group of every container of a run.
const runUser = 65532

// Volumes of a run's pod.
const (
	volumeData         = "data"
	volumeInstructions = "instructions"
	volumeVariables    = "variables"
	volumeLocks        = "locks"
	volumeSignals      = "signals"
	volumeShown        = "shown"
	volumeWork         = "work"
	volumeToken        = "api-token"
	volumeRepositories = "repositories"
	volumeCredentials  = "credentials"
	scratchPrefix      = "scratch-"
)

// shownLimit bounds the plan as JSON and text, credentialsLimit ssh keys and known hosts. Both lie in memory.
var (
	shownLimit       = resource.MustParse("512Mi")
	credentialsLimit = resource.MustParse("16Mi")
)

// defaultPodAnnotations ask cluster autoscalers to let a run end; a Workspace's own annotations may say otherwise.
var defaultPodAnnotations = map[string]string{
	"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
	"karpenter.sh/do-not-disrupt":                    "true",
}

func renderPodTemplate(r Request, s Settings, config string, plan PlanFacts) corev1.PodTemplateSpec {
	annotations := maps.Clone(defaultPodAnnotations)
	maps.Copy(annotations, r.PodAnnotations)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: r.Labels(), Annotations: annotations, Finalizers: []string{v1alpha1.FinalizerResult}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			ServiceAccountName:            r.ServiceAccount,
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			ShareProcessNamespace:         ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(s.Grace(r.Phase) / time.Second)),
			SecurityContext:               podSecurity(),
		},
	}
	spec := &template.Spec
	spec.Volumes = sharedVolumes(r, config)
	if isApply(r.Phase) {
		tool := applyTool(r, s)
		spec.Volumes = append(spec.Volumes, emptyDir(volumeWork))
		if plan.masks() {
			tool.VolumeMounts = append(tool.VolumeMounts, mount(volumeVariables, runspec.VariablesDir, true))
			spec.Volumes = append(spec.Volumes, *plan.Volume)
		}
		spec.Containers = []corev1.Container{tool}
		if plan.Arch != "" {
			spec.NodeSelector = map[string]string{corev1.LabelArchStable: plan.Arch}
		}
	} else {
		maps.Copy(annotations, withoutIdentity(r.PodAnnotations))
		spec.Containers = []corev1.Container{keeper(r, s), planTool(r, s), show(r, s)}
		spec.Volumes = append(spec.Volumes, emptyDir(volumeLocks), emptyDir(volumeSignals),
			memory(volumeShown, &shownLimit), variables(r, config), memory(volumeCredentials, &credentialsLimit))
		if len(r.RepositorySecrets) > 0 {
			spec.Volumes = append(spec.Volumes, repositories(r))
		}
	}
	for _, c := range spec.Containers {
		spec.Volumes = append(spec.Volumes, emptyDir(scratchPrefix+c.Name))
	}
	if r.MountToken {
		spec.Volumes = append(spec.Volumes, apiToken())
	}
	return template
}

func keeper(r Request, s Settings) corev1.Container {
	mounts := []corev1.VolumeMount{
		data(runspec.SubPathTools, false), data(runspec.SubPathPluginCache, false), data(runspec.SubPathRuns, false),
		mount(volumeLocks, runspec.LocksDir, false), mount(volumeSignals, runspec.SignalsDir, false), mount(volumeShown, runspec.ShownDir, false),
		mount(volumeCredentials, runspec.CredentialsDir, false),
	}
	if len(r.RepositorySecrets) > 0 {
		mounts = append(mounts, mount(volumeRepositories, runspec.RepositoriesDir, true))
	}
	return container(runspec.ContainerKeeper, runspec.ContainerKeeper, s, s.Keeper, mounts...)
}

func planTool(r Request, s Settings) corev1.Container {
	c := container(runspec.ContainerTool, runspec.ContainerTool, s, s.Tool,
		data(runspec.SubPathTools, true), data(runspec.SubPathPluginCache, true), data(runspec.SubPathWork(r.RunID), false),
		mount(volumeLocks, runspec.LocksDir, false), mount(volumeSignals, runspec.SignalsDir, true), mount(volumeVariables, runspec.VariablesDir, true))
	return withLogLevel(withToken(c, r), r)
}

func show(r Request, s Settings) corev1.Container {
	return container(runspec.ContainerShow, runspec.ContainerShow, s, s.Show,
		data(runspec.SubPathTools, true), data(runspec.SubPathPluginCache, true), data(runspec.SubPathSealed(r.RunID), true),
		mount(volumeLocks, runspec.LocksDir, false), mount(volumeSignals, runspec.SignalsDir, true), mount(volumeShown, runspec.ShownDir, false))
}

func applyTool(r Request, s Settings) corev1.Container {
	work := mount(volumeWork, runspec.DataDir+"/"+runspec.SubPathWork(r.RunID), false)
	c := container(runspec.ContainerTool, runspec.ArgApply, s, s.Tool,
		data(runspec.SubPathTools, true), data(runspec.SubPathPluginCache, true), work,
		data(runspec.SubPathSealed(r.RunID), true), data(runspec.SubPathClaim(r.RunID), false))
	return withLogLevel(withToken(c, r), r)
}

// withLogLevel has the tool log its own doings. Its log comes with its output, and is masked like it.
func withLogLevel(c corev1.Container, r Request) corev1.Container {
	if r.TFLogLevel != "" {
		c.Env = append(c.Env, corev1.EnvVar{Name: "TF_LOG", Value: r.TFLogLevel})
	}
	return c
}

// container has what all containers share: the instructions, a scratch folder of its own, and no rights.
func container(name, arg string, s Settings, resources corev1.ResourceRequirements, mounts ...corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name: name, Image: s.RunImage, ImagePullPolicy: s.PullPolicy, Command: []string{runspec.ExecutablePath}, Args: []string{arg},
		Resources:                resources,
		SecurityContext:          containerSecurity(),
		TerminationMessagePath:   runspec.TerminationLog,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts: append(mounts,
			mount(volumeInstructions, runspec.InstructionsDir, true), mount(scratchPrefix+name, runspec.ScratchDir, false)),
	}
}

func withToken(c corev1.Container, r Request) corev1.Container {
	if r.MountToken {
		c.VolumeMounts = append(c.VolumeMounts, mount(volumeToken, "/var/run/secrets/kubernetes.io/serviceaccount", true))
	}
	return c
}

func mount(volume, path string, readOnly bool) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: readOnly}
}

// data mounts a folder of the Workspace's volume at the same place in every container.
func data(subPath string, readOnly bool) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volumeData, SubPath: subPath, MountPath: runspec.DataDir + "/" + subPath, ReadOnly: readOnly}
}

func sharedVolumes(r Request, config string) []corev1.Volume {
	instructions := &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: config},
		Items:                []corev1.KeyToPath{{Key: instructionsKey, Path: instructionsKey}},
		DefaultMode:          ptr.To(int32(0o440)),
	}
	return []corev1.Volume{
		{Name: volumeData, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: VolumeName(r.Workspace)}}},
		{Name: volumeInstructions, VolumeSource: corev1.VolumeSource{ConfigMap: instructions}},
	}
}

// variables projects every variable into one folder, each as a file named by its index. The kubelet reads the
// references; their values never pass through the runner.
func variables(r Request, config string) corev1.Volume {
	literals := &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: config}}
	var sources []corev1.VolumeProjection
	for i, v := range r.Variables {
		file := strconv.Itoa(i)
		switch {
		case v.Value != nil:
			literals.Items = append(literals.Items, corev1.KeyToPath{Key: literalPrefix + file, Path: file})
		case v.Secret != nil:
			sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.Name},
				Items:                []corev1.KeyToPath{{Key: v.Secret.Key, Path: file}}, Optional: ptr.To(v.Secret.Optional)}})
		case v.ConfigMap != nil:
			sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMap.Name},
				Items:                []corev1.KeyToPath{{Key: v.ConfigMap.Key, Path: file}}, Optional: ptr.To(v.ConfigMap.Optional)}})
		}
	}
	if len(literals.Items) > 0 {
		sources = append([]corev1.VolumeProjection{{ConfigMap: literals}}, sources...)
	}
	return corev1.Volume{Name: volumeVariables, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: ptr.To(int32(0o440))}}}
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func memory(name string, limit *resource.Quantity) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: limit}}}
}

// repositories projects the keys of repository credentials, and no others, into a folder per Secret. A Secret or a key that is
// not there is left out: whether something that is needed is missing shows when git asks for it.
func repositories(r Request) corev1.Volume {
	var sources []corev1.VolumeProjection
	for _, name := range r.RepositorySecrets {
		projection := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: ptr.To(true)}
		for _, key := range repositoryKeys {
			projection.Items = append(projection.Items, corev1.KeyToPath{Key: key, Path: name + "/" + key})
		}
		sources = append(sources, corev1.VolumeProjection{Secret: projection})
	}
	return corev1.Volume{Name: volumeRepositories, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: ptr.To(int32(0o440))}}}
}

// repositoryKeys are what package repocreds reads.
var repositoryKeys = []string{
	repocreds.KeyRepoURL, repocreds.KeyUsername, repocreds.KeyPassword, repocreds.KeySSHPrivateKey, repocreds.KeyKnownHosts,
	repocreds.KeyGitHubAppID, repocreds.KeyGitHubAppInstallationID, repocreds.KeyGitHubAppPrivateKey, repocreds.KeyGitHubAppBaseURL,
}

// apiToken is what Kubernetes mounts by itself into every container, for one container alone.
func apiToken() corev1.Volume {
	return corev1.Volume{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To(int32(0o440)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To(int64(3607))}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		}}}}
}

func podSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(runUser)), RunAsGroup: ptr.To(int64(runUser)), FSGroup: ptr.To(int64(runUser)),
		FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), RunAsNonRoot: ptr.To(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}
