package event

import (
	"strings"
	"testing"
)

// secretCommands has usual command lines, arguments separated by |, in which hunter2 is a secret.
const secretCommands = `curl|-su|me:hunter2|https://h
curl|--oauth2-bearer|hunter2
curl|-bsid=hunter2
curl|--cert|me.pem:hunter2
curl|-H|PRIVATE-TOKEN: hunter2
sh|-c|x --token hunter2 password:hunter2; x
sh|-c|x --token --password hunter2 y
sh|-c|x --token --api-key "hunter2 hunter2" y
sh|-c|curl -u me:hunter2 --oauth2-bearer hunter2 https://x:hunter2@h -H "X-Api-Key: hunter2"
curl|-H|Authorization: AWS4-HMAC-SHA256 Credential=x/20130524, Signature=hunter2
curl|-d|grant_type=x&client_secret=hunter2
curl|https://hooks.slack.com/services/T00000000/B00000000/hunter2
curl|https://discord.com/api/webhooks/1234/hunter2
curl|https://api.telegram.org/bot123456789:AAhunter2hunter2hunter2/sendMessage
wget|--http-password|hunter2
http|-a|me:hunter2|https://h
mysqlimport|-phunter2
mongosh|-u|me|-p|hunter2
redis-cli|-u|redis://:hunter2@h:6379
redis-cli|auth|hunter2
sqlcmd|-U|sa|-Phunter2
sqlplus|-s|scott/hunter2@//h:1521/x
psql|dbname=x password=hunter2
ldapsearch|-D|cn=x|-w|hunter2
plink|-pw|hunter2|h
smbclient|//h/s|-U|dom/me%hunter2
mount|-t|cifs|-o|user=x,pass=hunter2,uid=0
xfreerdp|/u:me|/p:hunter2
impacket-psexec|dom/me:hunter2@h
usermod|-p|hunter2|me
openssl|enc|-k|hunter2
openssl|rsa|-passin|pass:hunter2
7z|a|-phunter2|x.7z
rar|a|-hphunter2|x
zip|-P|hunter2|x.zip
keytool|-storepass|hunter2
java|-Djavax.net.ssl.keyStorePassword=hunter2
aws|configure|set|aws_secret_access_key|hunter2
az|login|-u|x|-p|hunter2
doctl|-t|hunter2
vault|login|hunter2
vault|operator|unseal|hunter2
kubectl|create|secret|generic|x|--from-literal=k=hunter2
helm|--set|auth.rootPassword=hunter2,x=1
helm|registry|login|-p|hunter2
skopeo|copy|--src-creds|me:hunter2
docker|--config|x|login|-u|me|-p|hunter2
docker|run|-eDB_PASSWORD=hunter2
git|-c|http.extraheader=AUTHORIZATION: basic hunter2|fetch
npm|config|set|//registry.npmjs.org/:_authToken|hunter2
twine|upload|-u|x|-p|hunter2
cargo|login|hunter2
dotnet|nuget|push|-k|hunter2
ansible-playbook|--extra-vars|db_pass=hunter2 x=1
terraform|apply|-var|db_password=hunter2
rclone|--s3-secret-access-key|hunter2
nmcli|d|wifi|connect|x|password|hunter2
snmpwalk|-v2c|-c|hunter2|h
mosquitto_pub|-P|hunter2|-u|x
ipmitool|-U|x|-P|hunter2
jq|--arg|password|hunter2
python3|-c|requests.get(u, auth=('me','hunter2'))
python3|-c|os.environ['API_KEY']='hunter2'
x|Server=h;Uid=u;Pwd=hunter2;
x|jdbc:oracle:thin:scott/hunter2@h:1521:x
x|root:hunter2@tcp(127.0.0.1:3306)/db?parseTime=true
x|Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=hunter2=
x|<Password>hunter2</Password><x/>
x|{"pwd":"hunter2"}
x|STRIPE_KEY=hunter2
x|GITHUB_PAT=hunter2
x|TOKENS=hunter2
x|--pw=hunter2
x|--license-key|hunter2
x|--passcode|hunter2
x|sk_live_hunter2hunter2hunter2
x|sk-ant-api03-hunter2hunter2hunter2
x|SG.hunter2hunter2hunter2.hunter2hunter2hunter2
x|glrt-hunter2hunter2hunter2
x|hf_hunter2hunter2hunter2
x|AGE-SECRET-KEY-1hunter2
sh|-c|zip -P hunter2 x.zip
sh|-c|ldapsearch -x -w hunter2 -b x; true
sh|-c|vault login hunter2
sh|-c|helm registry login -u me -p hunter2
sh|-c|cd /x && sqlplus -s scott/hunter2@db
sh|-c|curl -su me:hunter2 https://h`

// plainCommands has command lines without secrets.
const plainCommands = `make -j8 -C /src all
git -C /src log -p -1 -u main
git commit -am fix: a
ls -lu /x
mkdir -p /a/b
cp -p token /dst
cat /run/secrets/db_password /etc/hosts
ssh -p 22 h
docker run -p 80:80 -v /a:/b python:3.12@sha256:0123abcd
docker compose up -d
kubectl get secret foo
gcc -o x -pthread x.c
python3 -c import os; print(os.getcwd())
sh -c cd $PWD && ls; PWD=/x make
go test -run TestKey ./...
openssl req -keyout k.pem -out c.pem
dotnet publish -p:Version=1
tar -xpf a.tar
curl -sSLo f https://h/p
rsync -a u@h:/p /q
find / -perm -u+x
npm i @scope/x
sort -k 2,2 -u f`

// TestRedactTools checks that secrets are masked, and nothing else.
func TestRedactTools(t *testing.T) {
	for line := range strings.Lines(secretCommands) {
		argv := strings.Split(strings.TrimSpace(line), "|")
		out := strings.Join(RedactArgv(argv), "|")
		if strings.Contains(out, "hunter2") || !strings.HasPrefix(out, argv[0]+"|") || !strings.Contains(out, mask) {
			t.Errorf("%s: %s", line, out)
		}
	}
	for line := range strings.Lines(plainCommands) {
		argv := strings.Fields(line)
		if len(argv) > 2 && argv[1] == "-c" {
			argv = strings.SplitN(strings.TrimSpace(line), " ", 3)
		}
		if in, out := strings.Join(argv, " "), strings.Join(RedactArgv(argv), " "); in != out {
			t.Errorf("%s: %s", in, out)
		}
	}
}
