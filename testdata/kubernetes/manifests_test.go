// Package kubernetes holds examples/gitops/kubernetes, and the container image of `make image`,
// against what they are for: the manifests are read strictly, and servers are run from the image
// with the arguments, files and rights that the manifests give them. It is a module of its own,
// so that the types of Kubernetes are no dependencies of salectl.
package kubernetes

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const folder = "../../examples/gitops/kubernetes"

// manifests are what kustomize makes of the folder.
type manifests struct {
	server   *appsv1.StatefulSet
	apply    *batchv1.Job
	drift    *batchv1.CronJob
	budget   *policyv1.PodDisruptionBudget
	network  *networkingv1.NetworkPolicy
	services map[string]*corev1.Service
	configs  map[string]*corev1.ConfigMap
}

// build reads the folder as kubectl, Argo CD and Flux do. A field that Kubernetes does not know
// is an error, and so is a kind that this test does not know.
func build(t *testing.T) *manifests {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	m := &manifests{services: make(map[string]*corev1.Service), configs: make(map[string]*corev1.ConfigMap)}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var into any
		switch gvk := r.GetGvk().String(); gvk {
		case "StatefulSet.v1.apps":
			m.server = new(appsv1.StatefulSet)
			into = m.server
		case "Job.v1.batch":
			m.apply = new(batchv1.Job)
			into = m.apply
		case "CronJob.v1.batch":
			m.drift = new(batchv1.CronJob)
			into = m.drift
		case "PodDisruptionBudget.v1.policy":
			m.budget = new(policyv1.PodDisruptionBudget)
			into = m.budget
		case "NetworkPolicy.v1.networking.k8s.io":
			m.network = new(networkingv1.NetworkPolicy)
			into = m.network
		case "Service.v1.[noGrp]":
			m.services[r.GetName()] = new(corev1.Service)
			into = m.services[r.GetName()]
		case "ConfigMap.v1.[noGrp]":
			m.configs[r.GetName()] = new(corev1.ConfigMap)
			into = m.configs[r.GetName()]
		default:
			t.Fatalf("%s %s: no such kind is known here", gvk, r.GetName())
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s %s: %v", r.GetKind(), r.GetName(), err)
		}
		if r.GetNamespace() != "shop" {
			t.Errorf("%s %s is in namespace %q", r.GetKind(), r.GetName(), r.GetNamespace())
		}
	}
	return m
}

// Manifests refer to each other by labels and names, and nobody says so where one is wrong.
func TestManifests(t *testing.T) {
	m := build(t)
	labels := m.server.Spec.Template.Labels
	selects := func(what string, selector map[string]string) {
		for name, value := range selector {
			if labels[name] != value {
				t.Errorf("%s selects %s=%s, and the servers' Pods have %q", what, name, value, labels[name])
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects every Pod", what)
		}
	}
	selects("the StatefulSet", m.server.Spec.Selector.MatchLabels)
	selects("the PodDisruptionBudget", m.budget.Spec.Selector.MatchLabels)
	selects("the NetworkPolicy", m.network.Spec.PodSelector.MatchLabels)
	server := m.server.Spec.Template.Spec
	selects("the spread", server.TopologySpreadConstraints[0].LabelSelector.MatchLabels)
	selects("the NetworkPolicy's first rule", m.network.Spec.Ingress[0].From[0].PodSelector.MatchLabels)
	ports := make(map[string]int32)
	for _, p := range server.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, service := range m.services {
		selects("Service "+name, service.Spec.Selector)
		for _, p := range service.Spec.Ports {
			if p.TargetPort.StrVal != "claims" || ports["claims"] != p.Port {
				t.Errorf("Service %s leads to port %v; only claims may be reached by a Service", name, p.TargetPort)
			}
		}
	}
	headless := m.services[m.server.Spec.ServiceName]
	if headless == nil || headless.Spec.ClusterIP != corev1.ClusterIPNone || !headless.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service of the StatefulSet, which gives the Pods their names, is %+v", headless)
	}
	if *m.server.Spec.Replicas < 2 {
		t.Errorf("%d servers", *m.server.Spec.Replicas)
	}
	if before := server.Containers[0].Lifecycle.PreStop.Sleep.Seconds; *server.TerminationGracePeriodSeconds < before+longestDrain {
		t.Errorf("a server is killed after %d s, of which preStop takes %d, and a drain takes up to %d", *server.TerminationGracePeriodSeconds, before, longestDrain)
	}
	ready := server.Containers[0].ReadinessProbe
	if patience := time.Duration(ready.PeriodSeconds*(ready.FailureThreshold-1)) * time.Second; patience <= longestTakeover {
		t.Errorf("servers that are not ready for %v get nothing, so that one death, which takes up to %v to be made good, takes all out of the Services", patience, longestTakeover)
	}

	jobs := map[string]corev1.PodSpec{"serve": server, "apply": m.apply.Spec.Template.Spec, "plan": m.drift.Spec.JobTemplate.Spec.Template.Spec}
	for name, spec := range jobs {
		c := spec.Containers[0]
		if c.Name != name || c.Image != "registry.example.com/salectl:v1" {
			t.Errorf("container %s has the name %s and the image %s", name, c.Name, c.Image)
		}
		s := c.SecurityContext
		if !*spec.SecurityContext.RunAsNonRoot || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s may do too much: %+v, %+v", name, spec.SecurityContext, s)
		}
		if *spec.AutomountServiceAccountToken {
			t.Errorf("%s is given a token of Kubernetes", name)
		}
		for _, v := range spec.Volumes {
			switch {
			case v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o400):
				t.Errorf("%s: Secret %s has another mode than 0400: %v", name, v.Name, v.Secret.DefaultMode)
			case v.ConfigMap != nil && m.configs[v.ConfigMap.Name] == nil:
				t.Errorf("%s: there is no ConfigMap %s", name, v.ConfigMap.Name)
			}
		}
		// What the sale file takes from the environment is there.
		for _, of := range regexp.MustCompile(`[a-z]Env: (\S+)`).FindAllStringSubmatch(m.configs["sales"].Data["sale.yaml"], -1) {
			if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == of[1] }) {
				t.Errorf("%s: the sale file reads %s, which is not in the environment", name, of[1])
			}
		}
	}
	for name, policy := range map[string]*batchv1.PodFailurePolicy{"apply": m.apply.Spec.PodFailurePolicy, "plan": m.drift.Spec.JobTemplate.Spec.PodFailurePolicy} {
		if on := policy.Rules[0].OnExitCodes; *on.ContainerName != name {
			t.Errorf("the rule of %s is for a container %s", name, *on.ContainerName)
		}
	}
	if !maps.Equal(m.configs["sales"].Data, m.configs["sales-to-apply"].Data) {
		t.Error("what is applied is not what is served")
	}
	if text, err := os.ReadFile(folder + "/sale.yaml"); err != nil || m.configs["sales"].Data["sale.yaml"] != string(text) {
		t.Errorf("the ConfigMap does not have the file: %v", err)
	}
	// It can be a hook only if what it needs is a hook before it.
	for _, a := range []map[string]string{m.apply.Annotations, m.configs["sales-to-apply"].Annotations} {
		if a["argocd.argoproj.io/hook"] != "PreSync" {
			t.Errorf("not before the sync: %v", a)
		}
	}
	if !strings.HasPrefix(m.configs["sales-to-apply"].Annotations["argocd.argoproj.io/sync-wave"], "-") {
		t.Error("the file to apply is not there before the Job")
	}
}

// longestDrain is how many seconds a server takes at most between SIGTERM and its end: to give
// its shards away, for requests, for what the shards have accepted, and at the admin address.
const longestDrain = 20 + 10 + 5 + 10

// longestTakeover is for how long nobody may own the shards of a server that has died, at the
// default of lock.ttl. No server is ready then.
const longestTakeover = 3*time.Second + time.Second
