"""The 47 failures of other job systems, from their public reports; each has tests that carry its id."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What went wrong elsewhere, how bad it is (A is the worst), and who reported it."""

    id: str
    severity: str
    title: str
    reports: tuple[str, ...]


SCENARIOS = (
    Scenario(
        id="F01",
        severity="A",
        title="Job longer than the visibility / rescue time is handed to more workers",
        reports=(
            "pretix/pretix#2058",
            "celery/celery#5935",
            "celery/celery#3270",
            "hexpm/hexpm#1825",
            "aws-devtools-labs/aws-blocks#353",
        ),
    ),
    Scenario(
        id="F02",
        severity="B",
        title="Same message delivered many times, or delete fails after success",
        reports=(
            "collectiveidea/delayed_job#658",
            "celery/celery#4400",
            "BrighterCommand/Brighter#4040",
            "kalaspuff/tomodachi#2074",
        ),
    ),
    Scenario(
        id="F03",
        severity="A",
        title="Paused worker wakes after its lease was taken and writes, or steals the lease back",
        reports=(
            "rails/solid_queue#761",
            "collectiveidea/delayed_job_active_record#193",
            "brendanlong/lion-reader#917",
            "apache/airflow#7925",
        ),
    ),
    Scenario(
        id="F04",
        severity="A",
        title="Reaper works from a stale read and pushes a finished or re-claimed job back",
        reports=("riverqueue/river#1302", "riverqueue/river#1373", "rails/solid_queue#589"),
    ),
    Scenario(
        id="F05",
        severity="A",
        title="CPU-bound or blocking handler stops its own heartbeat",
        reports=(
            "taskforcesh/bullmq#3183",
            "taskforcesh/bullmq#3056",
            "Bogdanp/dramatiq#692",
            "PostHog/posthog#83080",
            "PostHog/posthog#39938",
        ),
    ),
    Scenario(
        id="F07",
        severity="B",
        title="Heartbeat interval equal to or above the expiry",
        reports=("apache/airflow#16573", "apache/airflow#19375", "janbjorge/pgqueuer#430"),
    ),
    Scenario(
        id="F08",
        severity="B",
        title="Heartbeat stopped before in-flight work was drained",
        reports=("rails/solid_queue#568", "rails/solid_queue#569", "hatchet-dev/hatchet#4383"),
    ),
    Scenario(
        id="F09",
        severity="B",
        title="Timed-out or cancelled job keeps running in its thread or process",
        reports=(
            "temporalio/sdk-python#1048",
            "python/cpython#107505",
            "timgit/pg-boss#555",
            "tobymao/saq#126",
        ),
    ),
    Scenario(
        id="F10",
        severity="B",
        title="Operator cancel / requeue races with start or finish",
        reports=(
            "rq/rq#2160",
            "SamSaffron/term-llm#918",
            "grantcarthew/node-rethinkdb-job-queue#82",
            "OCA/queue#306",
        ),
    ),
    Scenario(
        id="F11",
        severity="A",
        title="Worker is killed; job stays running for ever (same name comes back, or worker row pruned)",
        reports=(
            "procrastinate-org/procrastinate#1518",
            "oban-bg/oban#862",
            "riverqueue/river#1258",
            "geolens-io/geolens#624",
            "janbjorge/pgqueuer#475",
            "oban-bg/oban#364",
        ),
    ),
    Scenario(
        id="F13",
        severity="A",
        title="Job that kills its process is retried without end because the attempt is not counted",
        reports=(
            "collectiveidea/delayed_job#415",
            "sidekiq/sidekiq#4633",
            "sidekiq/sidekiq#4594",
            "Bogdanp/dramatiq#383",
        ),
    ),
    Scenario(
        id="F14",
        severity="B",
        title="Deploys use up the retry budget",
        reports=("python-arq/arq#267", "cashapp/misk#3892", "tobymao/saq#269"),
    ),
    Scenario(
        id="F16",
        severity="B",
        title="Stop signal never arrives, comes too late, or CancelledError is handled wrongly",
        reports=(
            "komoju/barcelona#27",
            "steamcmd/api#50",
            "aws/containers-roadmap#125",
            "procrastinate-org/procrastinate#871",
            "python-arq/arq#213",
        ),
    ),
    Scenario(
        id="F18",
        severity="A",
        title="Message goes out before the commit, or for a rolled-back job",
        reports=(
            "laravel/framework#35266",
            "laravel/framework#35422",
            "discourse/discourse#11293",
            "stacksjs/stacks#1882",
        ),
    ),
    Scenario(
        id="F19",
        severity="A",
        title="Job is committed but never published",
        reports=("frappe/press#3847", "OCA/connector#148", "kamu-data/kamu-cli#1398"),
    ),
    Scenario(
        id="F20",
        severity="A",
        title="Batch send answers 200 with failed entries and they are marked sent",
        reports=(
            "JasperFx/wolverine#3503",
            "aws-samples/sample-voice-of-customer-datalake#259",
            "aws-samples/sample-voice-of-customer-datalake#304",
        ),
    ),
    Scenario(
        id="F22",
        severity="B",
        title="Wake-up lost (listener dead, queue purged) or hidden for hours after a crash",
        reports=(
            "graphile/worker#541",
            "timgit/pg-boss#850",
            "taskforcesh/bullmq#4729",
            "alphagov/notifications-api#987",
            "MassTransit/MassTransit#2870",
        ),
    ),
    Scenario(
        id="F23",
        severity="A",
        title="One malformed message stops every consumer",
        reports=(
            "celery/kombu#2421",
            "travel-cloud/Cheddar#12",
            "RichardKnop/machinery#504",
            "mercadona/rele#140",
        ),
    ),
    Scenario(
        id="F24",
        severity="A",
        title="Message or stored payload is unpickled / names code to run",
        reports=("rq/rq#2389", "coleifer/huey#901", "inducer/relate#1504", "418sec/huntr#1494"),
    ),
    Scenario(
        id="F25",
        severity="A",
        title="Broker moves the message to the DLQ; job status stays accepted",
        reports=("MHRA/products#565", "mozilla/watchdog-proxy#13"),
    ),
    Scenario(
        id="F27",
        severity="B",
        title="12 h visibility cap and 15 min delay cap",
        reports=(
            "mapbox/ecs-watchbot#275",
            "aws/aws-sdk-js-v3#2983",
            "localstack/localstack#3956",
            "aws-samples/amazon-sqs-dlq-replay-backoff#8",
            "ruby-shoryuken/shoryuken#379",
        ),
    ),
    Scenario(
        id="F28",
        severity="B",
        title="ReceiveMessage hangs, 5xx or throttling ends the poll loop",
        reports=(
            "bbc/sqs-consumer#137",
            "aio-libs/aiobotocore#738",
            "useautumn/autumn#2439",
            "celery/kombu#931",
            "celery/celery#4159",
            "celery/celery#6210",
            "Particular/NServiceBus.AmazonSQS#156",
        ),
    ),
    Scenario(
        id="F29",
        severity="B",
        title="Submit hangs while the broker is down",
        reports=("celery/celery#4296", "celery/celery#6911", "celery/celery#4663"),
    ),
    Scenario(
        id="F30",
        severity="B",
        title="Container credentials expire in a long-lived loop or during a long job",
        reports=(
            "boto/botocore#3480",
            "boto/botocore#3117",
            "boto/botocore#3134",
            "aws/aws-sdk-js#3807",
            "anelendata/handoff#162",
        ),
    ),
    Scenario(
        id="F31",
        severity="A",
        title="Half-open database connection wedges the process until restart",
        reports=(
            "MemMachine/MemMachine#1552",
            "npgsql/npgsql#3037",
            "tobymao/saq#162",
            "timgit/pg-boss#850",
        ),
    ),
    Scenario(
        id="F32",
        severity="B",
        title="Database failover: stale writer, lost session locks",
        reports=("juspay/hyperswitch#13631", "graphile/worker#449", "bensheldon/good_job#90"),
    ),
    Scenario(
        id="F34",
        severity="B",
        title="Jobs use all connections, heartbeat waits; rolling deploy exceeds max_connections",
        reports=(
            "metabase/metabase#72261",
            "cybertec-postgresql/pg_timetable#218",
            "alphagov/whitehall#4199",
            "kortix-ai/suna#6724",
            "graphile/worker#564",
        ),
    ),
    Scenario(
        id="F36",
        severity="B",
        title="Long open transaction bloats the job table and slows the claim",
        reports=(
            "https://brandur.org/postgres-queues",
            "https://planetscale.com/blog/keeping-a-postgres-queue-healthy",
            "riverqueue/river#59",
            "NikolayS/PgQue#80",
        ),
    ),
    Scenario(
        id="F37",
        severity="C",
        title="Millions of rows: list, count, unique check and claim time out; no retention",
        reports=(
            "oban-bg/oban#1140",
            "bensheldon/good_job#1532",
            "windmill-labs/windmill#11211",
            "oban-bg/oban#391",
            "oban-bg/oban#1462",
            "frappe/frappe#20225",
            "https://status.yasoon.com/incidents/qf0378tbk81x",
        ),
    ),
    Scenario(
        id="F38",
        severity="B",
        title="Schema upgrade locks the live table, or replicas run it together",
        reports=(
            "oban-bg/oban#1373",
            "que-rb/que#342",
            "rhesis-ai/rhesis#2545",
            "Abilityai/trinity#1425",
            "aegra/aegra#565",
        ),
    ),
    Scenario(
        id="F39",
        severity="A",
        title="Two requests with one key at the same moment both run, or the loser gets 5xx",
        reports=(
            "square1-io/laravel-idempotency#1",
            "idempot-dev/idempot-js#186",
            "KanishJebaMathewM/Truxify#4696",
        ),
    ),
    Scenario(
        id="F40",
        severity="B",
        title="Key is not bound to caller, route and body",
        reports=(
            "nensii21/devlink#1195",
            "KanishJebaMathewM/Truxify#2382",
            "https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header/",
        ),
    ),
    Scenario(
        id="F41",
        severity="B",
        title='Key stays "in progress" after a crash, or a 5xx is frozen',
        reports=(
            "VilledeMontreal/express-idempotency#32",
            "hyperb1iss/sibyl#349",
            "useautumn/autumn#1851",
            "margince/margince#423",
        ),
    ),
    Scenario(
        id="F42",
        severity="B",
        title="Uniqueness lock outlives the job, new work is refused",
        reports=(
            "zoolutions/sidekiq-unique-jobs#304",
            "zoolutions/sidekiq-unique-jobs#560",
            "rails/solid_queue#546",
            "python-arq/arq#531",
        ),
    ),
    Scenario(
        id="F44",
        severity="C",
        title="Keep-alive shorter than the load balancer's: 502 on POST",
        reports=("conbench/conbench#1156", "lsst-sqre/phalanx#5103", "PostHog/posthog#17897"),
    ),
    Scenario(
        id="F46",
        severity="B",
        title="Result cannot be stored (NaN, Infinity, unserialisable) after the work is done",
        reports=(
            "ZJU-REAL/Polaris#287",
            "encode/django-rest-framework#5235",
            "langflow-ai/langflow#11905",
            "celery/celery#4860",
            "celery/celery#6990",
        ),
    ),
    Scenario(
        id="F47",
        severity="B",
        title="64-bit ids and money lose digits on the way",
        reports=(
            "contribsys/faktory#395",
            "contribsys/faktory#380",
            "riverqueue/riverui#593",
            "temporalio/ui#2670",
        ),
    ),
    Scenario(
        id="F49",
        severity="A",
        title="Ledger half posted or posted twice",
        reports=(
            "frappe/erpnext#43663",
            "frappe/lending#407",
            "MagicStack/asyncpg#127",
            "frappe/erpnext#35588",
        ),
    ),
    Scenario(
        id="F50",
        severity="B",
        title="Long job restarts from zero, never ends, or duplicates on re-run",
        reports=(
            "frappe/erpnext#53773",
            "frappe/erpnext#31519",
            "frappe/erpnext#42274",
            "databrickslabs/migrate#125",
            "credativ/credativ-pg-migrator#33",
        ),
    ),
    Scenario(
        id="F51",
        severity="B",
        title="Average cost leaves value at zero quantity; back-dated movement makes results stale",
        reports=(
            "odoo/odoo#211794",
            "odoo/odoo#46850",
            "odoo/odoo#115516",
            "odoo/odoo#222690",
            "frappe/erpnext#24031",
            "frappe/erpnext#26625",
        ),
    ),
    Scenario(
        id="F52",
        severity="B",
        title="Probe is green while nothing is consumed",
        reports=(
            "onyx-dot-app/onyx#12274",
            "apache/airflow#69807",
            "the-momentum/open-wearables#1543",
            "celery/celery#4079",
            "celery/celery#8030",
        ),
    ),
    Scenario(
        id="F53",
        severity="B",
        title="CPU or blocking call in an async endpoint freezes the API",
        reports=(
            "fastapi/fastapi#1806",
            "Woahai321/list-sync#80",
            "allenai/rslearn_projects#324",
            "mlrun/mlrun#5763",
        ),
    ),
    Scenario(
        id="F54",
        severity="C",
        title="Gauges drift: negative, never back to zero",
        reports=(
            "grafana/tempo#5246",
            "grafana/grafana#127845",
            "huggingface/dataset-viewer#1698",
            "contribsys/faktory#148",
            "geolens-io/geolens#624",
        ),
    ),
    Scenario(
        id="F55",
        severity="B",
        title="Job data readable by others; ops pages open; secrets in logs",
        reports=(
            "SalesforceAIResearch/MCP-Universe#68",
            "Countly/countly-server#7624",
            "Freika/dawarich#120",
            "mher/flower#1217",
            "mher/flower#1512",
            "lykinsbd/naas#8",
            "rails/rails#37660",
        ),
    ),
    Scenario(
        id="F56",
        severity="C",
        title="Memory grows with clients, sessions or reconnects",
        reports=(
            "boto/botocore#2047",
            "boto/boto3#4568",
            "terricain/aioboto3#388",
            "celery/celery#4843",
            "celery/celery#5047",
        ),
    ),
    Scenario(
        id="F58",
        severity="B",
        title="Leases judged by each node's clock",
        reports=(
            "kagkarlsson/db-scheduler#433",
            "kagkarlsson/db-scheduler#364",
            "mlflow/mlflow#25199",
            "Krzysztof318/MailFathom#1989",
            "quartznet/quartznet#3515",
        ),
    ),
    Scenario(
        id="F60",
        severity="C",
        title="One brand's backlog or a long kind keeps all others waiting",
        reports=(
            "sourcegraph/sourcegraph-public-snapshot#26895",
            "wavelens/gradient#111",
            "taskcluster/taskcluster#9131",
        ),
    ),
)
