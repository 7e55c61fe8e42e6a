package loader
import ("testing";"time";"github.com/cilium/ebpf")
func TestLK(t *testing.T){
	spec, err := ebpf.LoadCollectionSpec("/tmp/lk.o"); if err!=nil {t.Fatal(err)}
	coll, err := ebpf.NewCollection(spec); if err!=nil {t.Fatalf("%+v",err)}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 64, MaxEntries: 64, Flags: 1 << 12}); if err!=nil {t.Fatal(err)}
	coll.Maps["images"].Put(uint32(0), m)
	for mode:=0;mode<6;mode++ { coll.Variables["mode"].Set(uint32(mode)); coll.Variables["rounds"].Set(uint32(1000000))
	best:=time.Hour
	for k:=0;k<5;k++ { t0:=time.Now(); coll.Programs["ask"].Run(&ebpf.RunOptions{}); if e:=time.Since(t0);e<best{best=e} }
	t.Log(mode, best/1000000) }
}
